"""Selection: each link of the chain, what is refused and why, and measuring that checks before it times."""

import threading
from dataclasses import dataclass
from typing import ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import fdsolve as fd
from fdsolve import kernels
from fdsolve.kernels import StencilCall


@dataclass(frozen=True)
class Sum:
    """A call of the tests' own operation, with something to measure on."""

    operation: ClassVar[str] = "tests.sum"
    size: int = 8

    def cache_key(self):
        return f"size {self.size}"

    def examples(self):
        return (jnp.arange(self.size, dtype=float),)


@pytest.fixture(autouse=True)
def own_kernels(monkeypatch, tmp_path):
    """Kernels `reference`, `loop` (the better) and `gpu` of an operation, a cache of their own, and no traces left."""
    monkeypatch.setenv("FDSOLVE_CACHE_DIR", str(tmp_path))
    kernels.forget()
    kernels.register("tests.sum", backend="reference", priority=50)(lambda call, x: x.sum())
    kernels.register("tests.sum", backend="loop", priority=10)(lambda call, x: sum(x[i] for i in range(call.size)))
    kernels.register("tests.sum", backend="dot", priority=5)(lambda call, x: x @ jnp.ones_like(x))
    kernels.register("tests.sum", backend="device", platform="gpu", priority=99)(lambda call, x: x.sum())
    yield
    for kernel in kernels.available():
        if kernel.operation.startswith("tests.") or kernel.backend.startswith("tests."):
            kernels.withdraw(kernel.operation, kernel.backend)
    kernels.forget()


def test_the_heuristic_takes_the_highest_priority_that_serves_and_never_the_reference():
    choice = kernels.select(Sum())
    assert choice.backend == "loop" and choice.reason == "highest priority"
    assert choice.refused == (("device", "runs on gpu, and this is cpu"),)
    assert choice.chain == (
        "explicit: none",
        "scoped overlay: none",
        "memory cache: nothing measured",
        "persistent cache: nothing measured",
        "autotune: off",
        "heuristic: loop, the highest priority of 3 that serve",
    )
    assert str(choice) == "loop (highest priority); refused device: runs on gpu, and this is cpu"
    assert choice(Sum(3), jnp.ones(3)) == 3


@pytest.mark.parametrize("explicit", ["dot", {"tests.sum": "dot"}])
def test_an_explicit_choice_comes_first_and_does_not_leak(explicit):
    with kernels.use("reference"):
        assert kernels.select(Sum(), explicit).chain == ("explicit: dot",)
        assert kernels.select(Sum()).backend == "reference"
    assert kernels.select(Sum()).backend == "loop"


def test_an_explicit_kernel_that_cannot_serve_is_an_error_with_reasons():
    with pytest.raises(
        fd.PlanningError,
        match=r"`device` asked for \(explicit\) does not serve this tests\.sum: runs on gpu, and this is cpu\. "
        r'Those that do: loop, dot, reference; or leave it to "auto"\.',
    ):
        kernels.select(Sum(), "device")
    with pytest.raises(
        fd.DeclarationError, match=r"no kernel called `lop`; it has `device`, `loop`, `dot`, `reference`"
    ):
        kernels.select(Sum(), "lop")
    assert "does not serve" in kernels.explain(Sum(), "device")


def test_the_innermost_overlay_counts_and_auto_lifts_it():
    with kernels.use({"tests.sum": "dot"}):
        assert kernels.select(Sum()).chain == ("explicit: none", "scoped overlay: dot")
        with kernels.use("reference"):
            assert kernels.select(Sum()).backend == "reference"
            with kernels.use("auto"):
                assert kernels.select(Sum()).backend == "loop"
        with kernels.use({"stencil": "reference"}):
            assert kernels.select(Sum()).backend == "dot"
        assert kernels.select(Sum()).backend == "dot"


def test_an_overlay_ends_with_an_exception_and_stays_in_its_thread():
    seen = []
    with pytest.raises(ZeroDivisionError), kernels.use("dot"):
        worker = threading.Thread(target=lambda: seen.append(kernels.select(Sum()).backend))
        worker.start()
        worker.join()
        seen.append(kernels.select(Sum()).backend)
        raise ZeroDivisionError
    assert seen == ["loop", "dot"] and kernels.select(Sum()).backend == "loop"


@pytest.mark.parametrize("wrong", ["lop", {"tests.sum": "lop"}, {"tests.none": "dot"}, {"tests.sum": 3}, 3])
def test_an_overlay_of_what_is_not_there(wrong):
    with pytest.raises(fd.DeclarationError), kernels.use(wrong):
        pass


def test_none_left_lists_why_each_was_refused():
    kernels.register("tests.none", backend="a", platform="gpu")(lambda call: 0)
    kernels.register("tests.none", backend="b", serves=lambda call: "numba is not installed")(lambda call: 0)

    @dataclass(frozen=True)
    class Nothing:
        operation: ClassVar[str] = "tests.none"

    with pytest.raises(
        fd.PlanningError, match=r"No kernel serves this tests.none. a: runs on gpu, .* cpu; b: numba is not installed\."
    ):
        kernels.dispatch(Nothing())


def test_where_the_best_fails_to_build_the_next_is_used_with_one_warning():
    @kernels.register("tests.sum", backend="tests.broken", priority=30)
    def broken(call, x):
        raise OSError("no compiler\nat all")

    call = Sum(4)
    with pytest.warns(fd.FdsolveWarning) as caught:
        assert kernels.dispatch(call, jnp.ones(4)) == 4
        assert jax.jit(lambda x: kernels.dispatch(call, x))(jnp.ones(4)) == 4
    (warning,) = caught
    assert str(warning.message) == (
        "The kernel `tests.broken` for `tests.sum` failed to build, the next one is used: OSError: no compiler"
    )
    assert ("tests.broken", "failed to build: OSError: no compiler") in kernels.select(call).refused
    with pytest.raises(fd.PlanningError, match="was asked for and failed to build: OSError: no compiler"):
        kernels.dispatch(Sum(5), jnp.ones(5), explicit="tests.broken")
    kernels.forget()


def test_measuring_finds_a_kernel_and_keeps_it_in_memory_and_on_disk(tmp_path):
    with kernels.tuning():
        measured = kernels.select(Sum(), "auto")
    assert measured.backend in ("loop", "dot") and measured.reason.startswith("measured now: ")
    assert {name for name in ("loop", "dot", "reference") if f"{name} " in measured.reason} == {"loop", "dot"}
    again = kernels.select(Sum())
    assert again.backend == measured.backend and again.chain[2].startswith(f"memory cache: {measured.backend} (")
    kernels.forget()
    kept = kernels.select(Sum())
    assert kept.backend == measured.backend and kept.chain[3].startswith(f"persistent cache: {measured.backend} (")
    assert len(list(tmp_path.iterdir())) == 1
    assert kernels.select(Sum(100)).reason == "highest priority"


def test_tune_as_an_option_measures_and_a_new_candidate_is_not_judged_by_old_measurements():
    assert kernels.select(Sum(), "tune").reason.startswith("measured now")
    assert kernels.select(Sum()).reason.startswith("measured before")
    kernels.register("tests.sum", backend="later", priority=20)(lambda call, x: x.sum())
    assert kernels.select(Sum()).backend == "later" and kernels.select(Sum()).reason == "highest priority"


def test_measuring_again_passes_over_what_is_known():
    kernels.select(Sum(), "tune")
    with kernels.tuning(again=True):
        chain = kernels.select(Sum()).chain
    assert chain[2:4] == ("memory cache: passed over", "persistent cache: passed over")


def test_a_fast_wrong_kernel_is_refused():
    """It does nothing, so nothing is faster; the true ones win all the same, then and later."""
    kernels.register("tests.sum", backend="wrong", priority=1000)(lambda call, x: jnp.zeros((), x.dtype))
    kernels.register("tests.sum", backend="nan", priority=999)(lambda call, x: jnp.full((), jnp.nan, x.dtype))
    kernels.register("tests.sum", backend="shape", priority=998)(lambda call, x: x)
    kernels.register("tests.sum", backend="near", priority=997)(lambda call, x: x.sum() * (1 + 1e-9))
    kernels.register("tests.sum", backend="crash", priority=996)(lambda call, x: 1 / 0)
    with kernels.tuning():
        choice = kernels.select(Sum())
    assert choice.backend in ("loop", "dot")
    refused = dict(choice.refused)
    assert refused["wrong"] == "wrong: differs by 28 where 1.59e-12 is allowed"
    assert refused["nan"] == "wrong: is not finite where the judge is, or the other way round"
    assert refused["shape"] == "wrong: gives float64[8], the judge float64[]"
    assert refused["near"].startswith("wrong: differs by 2.8e-08")
    assert refused["crash"] == "failed to build: ZeroDivisionError: division by zero"
    assert dict(kernels.select(Sum()).refused) == refused


def test_measuring_under_a_trace_uses_concrete_numbers():
    found = []

    @jax.jit
    def traced(x):
        found.append(kernels.select(Sum(), "tune"))
        return x

    traced(1.0)
    assert found[0].reason.startswith("measured now")


def test_a_call_with_nothing_to_measure_on_falls_to_the_heuristic():
    @dataclass(frozen=True)
    class Bare:
        operation: ClassVar[str] = "tests.sum"
        size: int = 3

    chain = kernels.select(Bare(), "tune").chain
    assert chain[3:5] == ("persistent cache: this call has no key", "autotune: the call has nothing to measure on")
    assert kernels.select(Bare(), "tune", lambda: (jnp.ones(3),)).reason.startswith("measured now")


def test_explain_shows_the_chain_and_what_was_refused():
    text = kernels.explain(Sum())
    assert text.splitlines()[0] == "tests.sum: loop (highest priority)"
    assert "  autotune: off" in text and "  refused device: runs on gpu, and this is cpu" in text


GRID = fd.Grid(t=fd.Time(0.0, 0.1, num=5), x=fd.Axis(0.0, 1.0, num=9), y=fd.Axis(0.0, 1.0, num=8, periodic=True))


def declare():
    u = fd.Field("u", GRID)
    u[...] = lambda u, c, x: u["t-1"] + c * (u["t-1", "x-1"] + u["t-1", "x+1"] - 2 * u["t-1"]) + 0.01 * x
    u[0] = lambda x, y: jnp.sin(3 * x) * jnp.cos(2 * jnp.pi * y)
    u[dict(x=0)] = fd.boundary.Dirichlet(0.5)
    u[dict(x=-1)] = fd.boundary.Neumann(1.0)
    return u


def test_solve_runs_the_kernel_asked_for_and_the_plan_says_so():
    counted = []

    @kernels.register("stencil", backend="tests.counted", priority=-50)
    def count(call, values, weights):
        counted.append(call)
        return kernels.get("stencil", "slices")(call, values, weights)

    u = declare()
    found = fd.solve(u, c=0.2, kernel={"stencil": "tests.counted", "march": "slices"})
    assert counted and {call.offsets for call in counted} == {((-1, 0), (0, 0), (1, 0))}
    np.testing.assert_allclose(found["u"], fd.solve(u, c=0.2, kernel="slices")["u"], rtol=0, atol=1e-14)
    text = str(found.plan)
    assert "Kernel for stencil: tests.counted (explicit); by slices: " in text
    assert "gives a ghost" in text and "explicit: tests.counted" in text
    (row,) = [line for line in text.splitlines() if "affine" in line and "u[1:9, 0:8]" in line]
    assert row.endswith("tests.counted")
    assert found.plan != fd.plan(u, c=0.2)
    assert fd.plan(u, c=0.2, kernel="slices") == fd.plan(u, c=0.2, kernel={"march": "slices", "stencil": "slices"})


def test_solve_goes_on_with_the_next_kernel_and_warns_once():
    @kernels.register("stencil", backend="tests.broken", priority=1000)
    def broken(call, values, weights):
        raise OSError("no compiler")

    u = declare()
    with kernels.use({"march": "slices"}):
        with pytest.warns(fd.FdsolveWarning, match="`tests.broken` for `stencil` failed to build") as caught:
            found, again = fd.solve(u, c=0.2), fd.solve(u, c=0.2)
        assert len(caught) == 1
        np.testing.assert_array_equal(found["u"], again["u"])
        assert "refused tests.broken: failed to build: OSError: no compiler" in str(found.plan)
        np.testing.assert_array_equal(found["u"], fd.solve(u, c=0.2, kernel="slices")["u"])
    kernels.forget()
    with pytest.raises(
        fd.PlanningError, match=r"`tests.broken` for `stencil` was asked for and failed to build: OSError"
    ):
        fd.solve(u, c=0.2, kernel={"stencil": "tests.broken", "march": "slices"})


def test_an_overlay_reaches_solves():
    with kernels.use({"stencil": "reference", "march": "slices"}):
        plan = fd.plan(declare(), c=0.2)
    assert plan.structure.kernels == (("stencil", "reference"),)
    assert "stencil: reference (scoped overlay)" in str(plan)


@pytest.mark.parametrize("scoped", [False, True])
def test_a_stencil_kernel_that_is_asked_for_runs_however_much_work_there_is(scoped):
    calls = []

    @kernels.register("stencil", backend="tests.counted", priority=-50)
    def counted(call, values, weights):
        calls.append(call.shape)
        return kernels.get("stencil", "slices")(call, values, weights)

    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=50), x=fd.Axis(0.0, 1.0, num=2000, periodic=True)))
    u[...], u[0] = lambda u: 0.5 * (u["t-1", "x-1"] + u["t-1", "x+1"]), 1.0
    assert "march: slices" not in str(fd.plan(u, save=fd.final()))
    with kernels.use("tests.counted" if scoped else "auto"):
        solution = fd.solve(u, save=fd.final(), kernel="auto" if scoped else "tests.counted")
    assert "Kernel for march: slices (it runs stencils by tests.counted)" in str(solution.plan)
    assert (2000,) in calls
    both = fd.plan(u, save=fd.final(), kernel={"march": "fft", "stencil": "tests.counted"})
    assert "Kernel for march: fft (explicit)" in str(both)


def test_a_stencil_kernel_asked_for_where_no_rule_is_a_stencil():
    u = fd.Field("u", GRID)
    u[...] = lambda u: 0.1 * u["t-1", "x-1"] ** 2
    u[dict(x=0)] = u[0] = 0.25
    with pytest.raises(
        fd.PlanningError, match=r"`reference` has nothing to do .* affine .* `lambda` on .* is not affine"
    ):
        fd.plan(u, kernel={"stencil": "reference"})
    still = fd.Field("u", fd.Grid(x=fd.Axis(0.0, 1.0, num=5)))
    still[...] = lambda x: x
    with pytest.raises(
        fd.PlanningError, match=r"`fft` has nothing to do in this solve. A march takes two levels or more"
    ):
        fd.plan(still, kernel="fft")


def test_a_kernel_that_no_solve_uses():
    with pytest.raises(
        fd.DeclarationError, match=r"a solve has the operations march and stencil, and 'dot' names a kernel of tests"
    ):
        fd.plan(declare(), c=0.2, kernel="dot")


def test_the_shape_class_dtype_and_offsets_are_the_key_of_a_stencil():
    one = StencilCall((100, 60), "<f4", ((0, 0), (1, 0)))
    assert one.cache_key() == StencilCall((128, 64), "<f4", ((0, 0), (1, 0))).cache_key()
    others = [
        StencilCall((129, 64), "<f4", ((0, 0), (1, 0))),
        StencilCall((128, 64), "<f8", ((0, 0), (1, 0))),
        StencilCall((128, 64), "<f4", ((0, 0), (0, 1))),
    ]
    assert len({one.cache_key(), *(call.cache_key() for call in others)}) == 4


def test_a_march_is_filed_under_its_structure_and_not_its_numbers():
    def key(factor, num=24, save=None, periodic=False):
        grid = fd.Grid(t=fd.Time(0.0, 1.0, num=9), x=fd.Axis(0.0, 1.0, num=num, periodic=True))
        u = fd.Field("u", grid)
        u[...] = lambda u: factor * u["t-1", "x-1"] + u["t-1", "x+2" if periodic else "x+1"]
        u[0] = 1.0
        plan = fd.plan(u, save=save, kernel="slices")
        phase = plan.structure.phases[plan.structure.segments[-1].phases[0]]
        return kernels.MarchCall(plan.structure, phase, ("x",), 3, "cpu").cache_key()

    assert key(0.1) == key(0.2) == key(0.1, num=30) is not None
    assert len({key(0.1), key(0.1, num=40), key(0.1, periodic=True)}) == 3


@pytest.mark.parametrize("option", ["serves", "priority"])
def test_a_kernel_whose_predicate_fails_is_passed_over(option):
    kernels.register("stencil", backend="tests.faulty", **{option: lambda call: (call.shape, 1)[1][2]})(lambda *_: None)
    u = fd.Field("u", fd.Grid(t=fd.Time(0.0, 1.0, num=3), x=fd.Axis(0.0, 1.0, 5)))
    u[...] = lambda u: 0.5 * u["t-1"] + 0.25 * u["t-1", "x-1"] + 0.25 * u["t-1", "x+1"]
    u[0] = 1.0
    u[dict(x=[0, -1])] = 0.0
    said = r"`tests\.faulty` for `stencil` is passed over: its serves= or priority= raised TypeError: 'int' object"
    for kernel in ("auto", "slices"):
        with pytest.warns(fd.FdsolveWarning, match=said):
            assert fd.solve(u, kernel=kernel)["u"].shape == (3, 5)
    with pytest.warns(fd.FdsolveWarning, match=said), pytest.raises(fd.PlanningError, match="raised TypeError: 'int'"):
        fd.plan(u, kernel={"stencil": "tests.faulty"})
