"""The command line: what it prints and writes, how it ends, and that mistakes are told without tracebacks."""

import os
import subprocess
import sys
import warnings
from pathlib import Path

import jax.numpy as jnp
import numpy as np
import pytest
import xarray as xr
from matplotlib import pyplot as plt
from PIL import Image

from fdsolve.command import main
from fdsolve.command._gallery import examples, title_of
from fdsolve.command._info import extras
from fdsolve.command._problem import read_problem, read_setting

ROOT = Path(__file__).resolve().parents[2]

DECLARED = """
import fdsolve as fd
grid = fd.Grid(t=fd.Time(0.0, 1.0, num=4, units="s"), x=fd.Axis(0.0, 1.0, num=5))
u = fd.Field("u", grid)
u[...] = lambda u, a: a * u["t-1"]
u[0] = lambda x: 1.0 + x
fields = u
parameters = dict(a=0.5)
options = dict(save=fd.every(1))
"""
FUNCTION = DECLARED.replace("fields = u\n", "").replace("parameters = dict(a=0.5)\n", "").replace("options", "given")
FUNCTION += """
def problem(a=0.5, *, label):
    return dict(fields=[u], parameters=dict(a=a), options=given)
"""


@pytest.fixture
def declared(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "p.py").write_text(DECLARED)
    (tmp_path / "f.py").write_text(FUNCTION)
    yield tmp_path
    plt.close("all")


def told(capsys):
    """What was printed on the error stream, which holds no traceback."""
    text = capsys.readouterr().err
    assert "Traceback" not in text
    return text


def test_run_saves_draws_and_films(declared, capsys):
    wanted = ["--save", "o.nc", "--plot", "o.png", "--animate", "o.gif", "--kind", "lines"]
    assert main(["run", "p.py", "--set", "a=0.25", *wanted]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "Solution(u (4, 5), t = 0 … 1)",
        "written o.nc",
        "written o.png",
        "written o.gif",
    ]
    with xr.open_dataset("o.nc") as data:
        start = 1 + np.linspace(0, 1, 5)
        np.testing.assert_allclose(data.u, start * 0.25 ** np.arange(4)[:, None])
        assert data.attrs["a"] == 0.25
    with Image.open("o.png") as picture, Image.open("o.gif") as film:
        assert min(picture.size) > 400 and film.n_frames == 4


def test_plan_prints_and_draws(declared, capsys):
    assert main(["plan", "f.py", "--set", "label=x", "--plot", "r.png"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Plan\n  Grid 4 × 5") and printed.endswith("written r.png\n")
    assert Path("r.png").stat().st_size > 1000


def test_settings_are_python_values_or_words():
    texts = ["a=1e-3", "n=5", "v=[1, 2]", "name=upwind", "s='1'", "flag=True", "e=a=b"]
    expected = [("a", 1e-3), ("n", 5), ("v", [1, 2]), ("name", "upwind"), ("s", "1"), ("flag", True), ("e", "a=b")]
    assert [read_setting(text) for text in texts] == expected


def test_settings_reach_parameters_and_arguments(declared):
    assert read_problem("p.py", {"a": 0.125}).parameters == {"a": 0.125}
    found = read_problem(declared / "f.py", {"a": 2, "label": "x"})
    assert found.parameters == {"a": 2} and [one.name for one in found.fields] == ["u"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "q.py"], "There is no problem file 'q.py'. In "),
        (["run", "p.py", "--set", "a"], "--set takes name=value, as in --set kappa=0.1; got 'a'"),
        (["run", "p.py", "--set", "b=1"], "p.py: No rule asks for the parameter `b`. Rules ask for a."),
        (["run", "f.py", "--set", "b=1"], "the function `problem` of f.py has no such argument; it has a, label."),
        (["run", "f.py"], "The function `problem` of f.py wants `label`: add --set label=…"),
        (["run", "p.py", "--save", "o.txt"], "--save writes files that end in .nc, .zarr; got 'o.txt'."),
        (["run", "p.py", "--plot", "no/o.png"], "--plot: there is no folder 'no'; make it first."),
        (["run", "p.py", "--field", "w", "--plot", "o.png"], "There is no field 'w' to draw; there are `u`."),
        (["run", "p.py", "--set", "a=half"], "`a` is the text 'half', not a number."),
        (["run", "."], "'.' is a folder; name a problem file. In "),
        (["gallery", "--run", "dem"], "There is no example 'dem'. Did you mean demo?"),
        (["run"], "the following arguments are required: problem.py"),
        (["run", "p.py", "--colour"], "unrecognized arguments: --colour"),
        (["run", "p.py", "--save", "o.nc", "--save", "o.zarr"], "--save: it is given twice; give it once"),
        (["walk"], "invalid choice: 'walk'"),
    ],
)
def test_mistakes_end_with_2_and_say_what_to_write(declared, capsys, arguments, message):
    assert main(arguments) == 2
    assert message in told(capsys)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("fd.Field(", "fd.Feld("), "bad.py, line 4: u = fd.Feld(\"u\", grid)\n  AttributeError: module 'fdsolve' has"),
        (("num=4", "num=0"), "bad.py, line 3: grid = fd.Grid("),
        (("u[0] =", "u[0"), "SyntaxError"),
        (("fields = u\n", ""), "declares neither `fields` nor a function `problem`"),
        (("fields = u\n", "fields = 3\n"), "`fields` is a Field or a list of them, got int"),
        (("dict(save=", "dict(saves="), "fd.solve has no option 'saves'; `options` may hold stepper"),
        (("dict(a=0.5)", "[0.5]"), "`parameters` is a dict by name, got list"),
        (("u[0] = lambda x: 1.0 + x", ""), "bad.py: "),
    ],
)
def test_faults_of_a_problem_file_are_told_where_they_are(declared, capsys, change, message):
    assert change[0] in DECLARED
    Path("bad.py").write_text(DECLARED.replace(*change))
    assert main(["plan", "bad.py"]) == 2
    assert message in told(capsys)


def test_a_run_that_fails_ends_with_1(declared, capsys):
    Path("bad.py").write_text(DECLARED.replace("1.0 + x", "1.0 / x"))
    assert main(["run", "bad.py"]) == 1
    assert "bad.py: The initial state of `u` is not finite" in told(capsys)
    assert main(["run", "bad.py", "--traceback"]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize("more", [[], ["--progress"]], ids=["plain", "watched"])
def test_a_run_that_ends_not_finite_writes_what_there_is_and_ends_with_1(declared, capsys, more):
    wanted = ["--save", "o.nc", "--plot", "o.png", "--animate", "o.gif"]
    assert main(["run", "p.py", "--set", "a=1e160", *wanted, *more]) == 1
    text = told(capsys).splitlines()
    assert text[-1].startswith("fdsolve: p.py: ") and "`lambda` on u[...]" in text[-1] and "x=0 (0)" in text[-1]
    assert ("Give monitors=" in text[-1]) != bool(more) and "time step" in text[-1]
    assert not any("warning" in line for line in text if "not finite" in line)  # told once
    times = xr.open_dataset("o.nc").t
    np.testing.assert_allclose(times, np.linspace(0, 1, 4)[: 2 if more else 4])
    assert Path("o.png").exists() and Path("o.gif").exists()


def test_of_two_faults_the_run_is_told_last(declared, capsys):
    assert main(["run", "p.py", "--set", "a=1e160", "--plot", "o.png", "--time", "7"]) == 1
    first, last = told(capsys).splitlines()[-2:]
    assert "7" in first and "not finite" in last


@pytest.mark.filterwarnings("default::fdsolve.FdsolveWarning")
def test_an_interrupted_run_ends_with_1_and_one_that_a_monitor_stops_with_0(declared, capsys):
    text = DECLARED.replace("num=4", "num=400").replace("0.5)", "1.0)")
    stop = "fd.monitors.Callback(lambda look: __import__('signal').raise_signal(2), every=100)"
    declared.joinpath("i.py").write_text(text.replace("every(1)", f"every(1), monitors=[{stop}]"))
    assert main(["run", "i.py", "--save", "i.nc"]) == 1
    assert "interrupted from the keyboard at t = " in told(capsys).splitlines()[-1]
    assert 1 < xr.open_dataset("i.nc").t.size < 400
    declared.joinpath("n.py").write_text(text.replace("every(1)", f"at([0.5]), monitors=[{stop}]"))
    assert main(["run", "n.py"]) == 1
    assert "interrupted from the keyboard before anything was saved" in told(capsys).splitlines()[-1]
    declared.joinpath("s.py").write_text(
        text.replace("every(1)", "every(1), monitors=[fd.monitors.Steady(1e-3, every=9)]")
    )
    assert main(["run", "s.py", "--save", "s.nc"]) == 0
    assert xr.open_dataset("s.nc").t.size < 400


@pytest.mark.parametrize("fps", ["-3", "0", "nan", "1000", "many"])
def test_a_wrong_rate_of_a_film_is_told_before_the_run(declared, capsys, fps):
    assert main(["run", "p.py", "--animate", "o.gif", "--fps", fps]) == 2
    assert "--fps" in told(capsys).splitlines()[-1]


def test_a_field_that_is_not_there_is_told_before_the_run(declared, capsys):
    assert main(["run", "p.py", "--field", "w", "--save", "o.nc"]) == 2
    assert "Solution" not in capsys.readouterr().out and not Path("o.nc").exists()


def test_warnings_are_told_without_a_line_of_our_code(declared, capsys):
    ask = "import warnings\nfor one in (fd.FdsolveWarning, UserWarning):\n    "
    ask += "print(warnings.formatwarning('beware', one, 'file.py', 7, 'line'), end='')\n"
    Path("p.py").write_text(Path("p.py").read_text(encoding="utf-8") + ask, encoding="utf-8")
    before = warnings.formatwarning
    assert main(["plan", "p.py"]) == 0
    assert capsys.readouterr().out.startswith("fdsolve: warning: beware\nfile.py:7: UserWarning: beware\n")
    assert warnings.formatwarning is before


def test_wrong_arguments_of_the_benchmarks_end_with_2(capfd):
    assert main(["bench", "--only", "nosuch"]) == 2
    assert "there is no group 'nosuch'" in capfd.readouterr().err


def test_help_has_examples(capsys):
    for arguments in (["--help"], ["run", "--help"], ["plan", "--help"], ["gallery", "--help"], ["info", "--help"]):
        assert main(arguments) == 0
        assert "\n  fdsolve " in capsys.readouterr().out


def test_the_gallery_lists_and_runs(capsys, monkeypatch, tmp_path):
    assert main(["gallery"]) == 0
    listed = capsys.readouterr().out
    assert all(f"{name} " in listed and title_of(path) in listed for name, path in examples().items())
    (tmp_path / "examples").mkdir()
    for name, code in (("demo", "print('ran')"), ("broken", "raise SystemExit(3)")):
        (tmp_path / "examples" / f"{name}.py").write_text(code)
    monkeypatch.setattr("fdsolve.command._gallery.PACKAGE", tmp_path)
    assert main(["gallery", "--run", "demo"]) == 0
    assert main(["gallery", "--run", "broken"]) == 1
    assert "the example broken ended with 3" in told(capsys)


def test_what_is_missing_from_an_installation_is_said(capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("fdsolve.command._gallery.PACKAGE", tmp_path)
    monkeypatch.setattr("fdsolve.command._gallery.SOURCE", tmp_path)
    assert main(["gallery"]) == 2 and "No examples were found" in told(capsys)
    assert main(["bench", "--quick"]) == 2 and "come with the source of fdsolve" in told(capsys)


def test_info_tells_devices_kernels_and_extras(capsys):
    assert main(["info"]) == 0
    printed = capsys.readouterr().out
    assert "jaxlib" in printed and "cpu" in printed and "march" in printed and "slices" in printed
    assert set(extras()) <= {word.split()[0] for word in printed.splitlines() if word.startswith("  ")}


def test_the_problems_beside_the_examples_have_plans():
    for path in sorted((ROOT / "examples" / "problems").glob("*.py")):
        found = read_problem(path, {}).plan()
        assert str(found).startswith("Plan") and jnp.isfinite(found.stability.factor) and found.stability.stable


def test_it_runs_as_a_module(tmp_path):
    env = os.environ | {"PYTHONPATH": str(ROOT), "JAX_PLATFORMS": "cpu"}
    command = [sys.executable, "-m", "fdsolve", "run", "none.py"]
    run = subprocess.run(command, cwd=tmp_path, env=env, capture_output=True, text=True, timeout=120)
    assert (run.returncode, run.stdout) == (2, "") and run.stderr.startswith("fdsolve: There is no problem file")
