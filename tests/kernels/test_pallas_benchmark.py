"""The benchmark of the GPU kernel runs as it stands, in interpret mode where there is no GPU."""

import pytest

from benchmarks import gpu


def test_its_command_compares_whole_marches(capsys):
    gpu.main(["--interpret", "--only", "heat, 2-D", "--dtypes", "float32"])
    shown = capsys.readouterr().out
    assert "slices (XLA) |" in shown
    assert all(f"pallas/triton, {levels} a launch, tile (8, 16) |" in shown for levels in (1, 2, 3))
    assert "`copy`, 0 × `concatenate`" in shown
    assert "wrong by" not in shown and "does not run" not in shown


def test_it_says_that_it_wants_a_gpu(capsys):
    with pytest.raises(SystemExit):
        gpu.main([])
    assert "--interpret" in capsys.readouterr().err
