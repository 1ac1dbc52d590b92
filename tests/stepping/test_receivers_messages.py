"""What cannot be recorded, and what is no interpolation, is told."""

import numpy as np
import pytest

import fdsolve as fd


def field(dtype=None, timed=True):
    time = dict(t=fd.Time(0.0, 1.0, num=3)) if timed else {}
    u = fd.Field("u", fd.Grid(**time, x=fd.Axis(0.0, 1.0, 11), y=fd.Axis(0.0, 1.0, 6)), dtype=dtype)
    u[...] = 1
    return u


def cells(source=None):
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, num=10, cells=True)))
    u[...] = 1.0
    if source is not None:
        u[source] += 1.0
    return u


CASES = {
    "no places": (lambda: fd.receivers([]), "at least one; got none"),
    "no list": (lambda: fd.receivers(3.0), "takes a list of places, .*; got float"),
    "not places": (lambda: fd.receivers([0.3, 0.4]), "takes a list of places, .*; got list"),
    "lengths": (lambda: fd.receivers(dict(x=[0.1, 0.2], y=[0.1, 0.2, 0.3])), "one length are wanted, got x 2, y 3"),
    "shape": (lambda: fd.receivers(dict(x=np.ones((2, 2)))), r"`x` has the shape \(2, 2\)"),
    "every": (lambda: fd.receivers([fd.point(x=0.1)], every=0.5), r"every= takes a whole number .* got 0.5"),
    "name": (lambda: fd.point(x=0.1, interpolation="cubic"), 'takes "linear" or "sinc", got \'cubic\''),
    "radius": (lambda: fd.Sinc(radius=0), "`radius` is a whole number of points, got 0"),
    "window": (lambda: fd.Sinc(b=-1.0), "`b` is a number from 0 to 20, got -1.0"),
    "axes": (
        lambda: fd.solve(field(), save=fd.receivers([fd.point(x=0.1)])),
        "a coordinate for each of x, y is wanted, got x",
    ),
    "outside": (
        lambda: fd.solve(field(), save=fd.receivers([fd.point(x=1.2, y=0.1)])),
        "`x=1.2` lies outside the points of axis `x`, 0.0 to 1.0",
    ),
    "beside the cells": (
        lambda: fd.solve(cells(), save=fd.receivers([fd.point(x=0.01, interpolation="sinc")])),
        r"`x=0.01` lies outside the points of axis `x`, 0.05 to 0.95\d*. Write interpolation=\"linear\"",
    ),
    "beyond the cells": (
        lambda: fd.solve(cells(), save=fd.receivers([fd.point(x=-0.01)])),
        r"`x=-0.01` lies outside the points of axis `x`, 0.0 to 1.0\.$",
    ),
    "a source beside the cells": (
        lambda: fd.solve(cells(fd.point(x=0.01))),
        r"`x=0.01` lies outside the points of axis `x`, 0.05 to 0.95",
    ),
    "near a wall": (
        lambda: fd.solve(field(), save=fd.receivers([fd.point(x=0.25, y=0.2, interpolation=fd.Sinc(3, 4.53))])),
        None,
    ),
    "nearer a wall": (
        lambda: fd.solve(field(), save=fd.receivers([fd.point(x=0.15, y=0.2, interpolation=fd.Sinc(3, 4.53))])),
        "takes 3 points on each side .* and `x=0.15` has 2 on one. Move it inwards",
    ),
    "short axis": (
        lambda: fd.solve(field(), save=fd.receivers([fd.point(x=0.5, y=0.5, interpolation="sinc")])),
        "takes 8 points, and axis `y` has 6",
    ),
    "dtype": (
        lambda: fd.solve(field(int), save=fd.receivers([fd.point(x=0.5, y=0.5)])),
        "`u` has dtype int64. Declare it with dtype=float",
    ),
    "no time": (
        lambda: fd.solve(field(timed=False), save=fd.receivers([fd.point(x=0.5, y=0.5)])),
        "the grid has no time axis",
    ),
    "two saves": (
        lambda: fd.solve(field(), save=[fd.final(), fd.every(2)]),
        "takes one of .* got 2 and 0. Put all places",
    ),
    "a list of others": (lambda: fd.solve(field(), save=[3]), r"save= takes fd.every\(n\), .* got 3"),
}


@pytest.mark.parametrize("name", CASES)
def test_message(name):
    call, message = CASES[name]
    if message is None:
        call()
        return
    with pytest.raises(fd.DeclarationError, match=message):
        call()


def test_there_are_no_receivers_where_none_were_asked_for():
    with pytest.raises(fd.RunError, match=r"has no receivers; solve with save=fd.receivers"):
        _ = fd.solve(field()).receivers
