"""`python -m tracing` on small repositories."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
import torch

from conftest import PYTHON, TENSORS, AddModel, Run, command, in_process
from trace_sources import CUSTOM, FROZEN, ONNX, SCALE
from tracing.__main__ import main
from tracing.repository import Model


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_makes_an_artifact_and_its_record(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE)
    status, events = run()
    artifact = folder / "1" / "model.pt"
    assert status == 0
    steps = [(event["event"], event.get("step")) for event in events if "so far" not in event.get("step", "")]
    assert steps == [
        ("start", None),
        ("progress", "build"),
        ("progress", "trace"),
        ("progress", "check"),
        ("progress", "save"),
        ("done", None),
    ]
    assert events[0] == {"event": "start", "model": "scale", "version": 1}
    done = events[-1]
    assert done.pop("seconds") > 0
    assert done == {
        "event": "done",
        "model": "scale",
        "version": 1,
        "artifact": str(artifact),
        "bytes": artifact.stat().st_size,
        "sha256": sha256(artifact),
        "weights": {"kind": "random", "description": "seeded random weights (seed 0), not pretrained", "source": None},
        "checked": "thorough",
        "check": {
            "tolerance": 0,
            "rtol": 1e-5,
            "atol": 1e-5,
            "max_abs_diff": 0.0,
            "exceeding": 0,
            "elements": 20,
            "not_finite": 0,
            "empty_outputs": [],
            "shapes": [[[4, 4]], [[1, 4]]],
        },
    }
    assert (folder / "labels.txt").read_text() == "one\ntwo\n"
    record = json.loads((folder / "1" / "model.pt.trace.json").read_text())
    assert record["artifact"] == {"path": "1/model.pt", "bytes": done["bytes"], "sha256": done["sha256"]}
    assert record["extra_files"] == [{"path": "labels.txt", "bytes": 8, "sha256": sha256(folder / "labels.txt")}]
    assert record["check"] == done["check"]
    assert (record["max_batch_size"], record["input_dims"]) == (0, [[-1, 4]])
    assert record["weights"] == done["weights"]
    assert record["packages"]["torch"] == torch.__version__.split("+")[0]
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["model.pt", "model.pt.trace.json"]
    loaded = torch.jit.load(artifact)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_up_to_date_models_are_detected_without_torch(tmp_path: Path, add_model: AddModel, run: Run) -> None:
    add_model("scale", SCALE)
    done = run()[1][-1]
    del done["seconds"]
    # A torch that cannot be imported.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text("raise RuntimeError('torch was imported')")
    again = in_process(tmp_path / "repo", python_path=str(tmp_path / "broken"))
    assert again == (0, [{**done, "event": "up-to-date"}])
    status, forced = in_process(tmp_path / "repo", "--force", python_path=str(tmp_path / "broken"))
    assert (status, forced[-1]["error"]) == (1, "RuntimeError: torch was imported")


@pytest.mark.parametrize(
    ("policy", "version"),
    [
        ("{ specific: { versions: [2, 1] } }", 2),
        ("[]", 1),
        ("{ specific: }", 1),
        ("{ specific: { versions: 2 } }", 1),
        ("{ latest: { num_versions: 2 } }", 1),
    ],
)
def test_the_newest_version_that_the_policy_names_is_made(tmp_path: Path, policy: str, version: int) -> None:
    (tmp_path / "model.yaml").write_text(f"version_policy: {policy}\n")
    assert (Model(tmp_path).version, Model(tmp_path, 3).version) == (version, 3)


def test_another_seed_and_version(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE)
    run()
    first = sha256(folder / "1" / "model.pt")
    done = run("--seed", "7", "--version", "2")[1][-1]
    assert done["artifact"] == str(folder / "2" / "model.pt")
    assert done["weights"]["description"] == "seeded random weights (seed 7), not pretrained"
    factors = [torch.jit.load(folder / version / "model.pt").factor for version in ("1", "2")]
    assert not torch.equal(*factors)
    assert sha256(folder / "1" / "model.pt") == first


def test_weights_of_the_users_own_stay_until_others_are_given(tmp_path: Path, add_model: AddModel, run: Run) -> None:
    source = SCALE.replace("torch.rand(4)", "torch.load(context.weights) if context.weights else torch.rand(4)", 1)
    kind = "Weights('pretrained', 'a file') if context.weights else Weights.random(context.seed)"
    folder = add_model("scale", source.replace("Weights.random(context.seed)", kind))
    file = tmp_path / "scale.pth"
    torch.save(torch.ones(4), file)
    run("--weights", f"scale={file}")
    torch.save(torch.ones(4), file)  # the same bytes, at another time
    assert run("--weights", f"scale={file}")[1][-1]["event"] == "up-to-date"

    status, events = run()
    assert (status, events[-1]["event"], events[-1]["weights"]["kind"]) == (0, "up-to-date", "pretrained")

    with (folder / "trace.py").open("a") as trace:
        trace.write("# changed\n")
    status, events = run()
    assert (status, events[-1]["event"]) == (1, "failed")
    assert "was traced with --weights scale=scale.pth" in events[-1]["error"]
    assert events[-1]["hint"] == (
        "Give --weights again, or name them in weights.yaml. --force uses the model's own weights instead."
    )
    assert torch.equal(torch.jit.load(folder / "1" / "model.pt").factor, torch.ones(4))

    torch.save(torch.full((4,), 2.0), file)
    assert run("--weights", f"scale={file}")[1][-1]["event"] == "done"
    assert run("--weights", f"scale={file}")[1][-1]["event"] == "up-to-date"
    assert run("--force")[1][-1]["weights"]["kind"] == "random"


@pytest.mark.slow
def test_models_in_processes_of_their_own(tmp_path: Path, add_model: AddModel) -> None:
    """A failed check replaces nothing, the others are made, and bytes depend neither on these nor on the folder."""
    frozen, scale, _ = add_model("frozen", FROZEN), add_model("scale", SCALE), add_model("scale_too", SCALE)
    add_model("custom", CUSTOM)
    (frozen / "1").mkdir()
    (frozen / "1" / "model.pt").write_bytes(b"the one before")
    status, events = in_process(tmp_path / "repo")
    assert status == 1
    failed = {event["model"]: event for event in events if event["event"] == "failed"}
    assert failed["custom"]["error"].startswith("the saved model.pt fails in a process of its own: RuntimeError:")
    assert failed["frozen"] == {
        "event": "failed",
        "model": "frozen",
        "error": "output 0 on inputs of shape [2, 4] differs by 0.5 from the eager module; "
        "the model's tolerance is 0.1",
        "hint": "Something was frozen while tracing, or the tolerance in trace.py is too strict.",
    }
    assert [path.name for path in (frozen / "1").iterdir()] == ["model.pt"]
    assert (frozen / "1" / "model.pt").read_bytes() == b"the one before"
    assert not (frozen / "golden").exists()
    with zipfile.ZipFile(scale / "1" / "model.pt") as archive:
        assert not [name for name in archive.namelist() if name.endswith(".debug_pkl")]
        assert not [name for name in archive.namelist() if str(tmp_path).encode() in archive.read(name)]
    first = sha256(tmp_path / "repo" / "scale_too" / "1" / "model.pt")
    (tmp_path / "repo").rename(tmp_path / "elsewhere")
    assert in_process(tmp_path / "elsewhere", "--models", "scale_too", "--force")[0] == 0
    assert sha256(tmp_path / "elsewhere" / "scale_too" / "1" / "model.pt") == first


def test_a_size_that_is_read_while_tracing_is_a_warning_with_its_line(add_model: AddModel, run: Run) -> None:
    looks = SCALE.replace(
        "return x * self.factor",
        "import warnings; warnings.warn('of the model'); x = x * self.factor if x.sum() > -9 else x; return x",
    )
    add_model("scale", looks)
    status, events = run()
    warned = [event for event in events if event["event"] == "warning"]
    assert status == 0
    assert len(warned) == 1
    assert warned[0]["model"] == "scale"
    assert warned[0]["text"].startswith(
        "repo/scale/trace.py:12: Converting a tensor to a Python boolean might cause the trace to be incorrect."
    )


def test_an_output_that_model_yaml_leaves_out_is_a_warning(add_model: AddModel, run: Run) -> None:
    config = TENSORS.replace("output__0", "output__1")
    add_model("scale", SCALE.replace("return x * self.factor", "return x, x * self.factor"), config=config)
    status, events = run("--quick")
    warned = [event["text"] for event in events if event["event"] == "warning"]
    assert (status, warned) == (0, ["output 0 of forward() is not in model.yaml, so clients do not get it"])


def test_a_module_beside_trace_py_is_named_where_it_fails(add_model: AddModel, run: Run) -> None:
    folder = add_model("broken", "from helper import build\nexport = build\n")
    (folder / "helper.py").write_text("import json\n\n\ndef build(context):\n    json.loads('{')\n")
    assert run()[1][-1]["error"].startswith("repo/broken/helper.py:5: JSONDecodeError: Expecting property name")


def test_onnx_is_checked_with_onnxruntime(add_model: AddModel, run: Run) -> None:
    folder = add_model("twice", ONNX, "onnxruntime_onnx", "max_batch_size: 0")
    done = run()[1][-1]
    assert done["event"] == "done"
    assert done["artifact"] == str(folder / "1" / "model.onnx")
    assert done["check"]["elements"] == 5
    request = json.loads((folder / "golden" / "1" / "traced-0.json").read_text())
    assert [tensor["name"] for tensor in (*request["inputs"], *request["outputs"])] == ["x", "y"]
    (folder / "trace.py").write_text((folder / "trace.py").read_text().replace('"Add"', '"Mul"'))
    status, events = run()
    assert status == 1
    assert "from the eager module; the model's tolerance is 0" in events[-1]["error"]


@pytest.mark.parametrize(
    ("trace", "platform", "error"),
    [
        ("x = 1", "pytorch_libtorch", "trace.py does not define export(context)"),
        ("def export(context): return 3", "pytorch_libtorch", "trace.py returned int, not an Export"),
        (
            "def export(context): return 1 / 0",
            "pytorch_libtorch",
            "repo/broken/trace.py:1: ZeroDivisionError: division by zero",
        ),
        (
            "import no_such_package",
            "pytorch_libtorch",
            "repo/broken/trace.py:1: ModuleNotFoundError: No module named 'no_such_package'",
        ),
        ("import torch\n\nx = = 1", "pytorch_libtorch", "repo/broken/trace.py:3: SyntaxError: invalid syntax"),
        (SCALE, "openvino", "platform is 'openvino', which npm run trace does not support"),
        (SCALE, "[a", "model.yaml is not valid YAML: "),
        (
            SCALE.replace("x * self.factor", "x * self.missing('\\n'.join(map(str, range(130))))").replace(
                "def forward", "def missing(self, text): raise ValueError(text)\n\n        def forward"
            ),
            "pytorch_libtorch",
            "\n8\n9\n... (111 lines omitted)\n121\n",
        ),
        (
            SCALE.replace("return x * self.factor", "import time; return x * (time.time() % 1)"),
            "pytorch_libtorch",
            "forward() uses another number when it is traced again",
        ),
    ],
)
def test_failures(add_model: AddModel, run: Run, trace: str, platform: str, error: str) -> None:
    folder = add_model("broken", trace, platform)
    status, events = run()
    assert status == 1
    assert events[-1]["event"] == "failed"
    said = f"{events[-1]['error']}\n{events[-1]['hint']}"
    assert error in said
    assert not (folder / "1").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--models", "scale,scales"],
            ' has no model "scales"; allowed: own, scale\n    -> did you mean scale?',
        ),
        (["--exclude", "other"], ' has no model "other"; allowed: own, scale\n'),
        (["--weights", "own=x"], ' has no model "own"; allowed: scale\n'),
        (["--weights", "scales=x"], ' has no model "scales"; allowed: scale\n    -> did you mean scale?'),
    ],
)
def test_unknown_models_are_usage_errors(
    tmp_path: Path, add_model: AddModel, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    add_model("scale", SCALE)
    (tmp_path / "repo" / "own" / "1").mkdir(parents=True)
    assert main(["--repo", str(tmp_path / "repo"), *arguments]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize("arguments", [["--weights", "scale"], ["--version", "0"], ["--version", "x"], ["--nonsense"]])
def test_malformed_arguments_are_usage_errors(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as raised:
        main(arguments)
    assert raised.value.code == 2


def test_exclude(add_model: AddModel, run: Run) -> None:
    add_model("frozen", FROZEN)
    add_model("scale", SCALE)
    status, events = run("--exclude", "frozen")
    assert (status, {event["model"] for event in events}) == (0, {"scale"})


@pytest.mark.slow
def test_nothing_is_left_by_a_terminated_run_or_a_killed_one(tmp_path: Path, add_model: AddModel, run: Run) -> None:
    pause = "import time; time.sleep(60 * torch.jit.is_tracing())"
    waits = SCALE.replace("return x * self.factor", f"{pause}; return x * self.factor")
    folder = add_model("scale", waits)

    def until_it_traces(*wrapper: str) -> subprocess.Popen[str]:
        arguments = [*wrapper, *command(tmp_path / "repo")]
        process = subprocess.Popen(arguments, cwd=PYTHON, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            event = json.loads(line)
            if (event.get("model"), event.get("step")) == ("scale", "trace"):
                break
        time.sleep(0.2)
        return process

    with until_it_traces() as process:
        process.kill()
    assert [(path / ".gitignore").read_text() for path in (folder / "1").glob("*")] == ["*\n"]
    add_model("other", waits)  # Two models are traced in two more processes.
    until_killed = [sys.executable, "-c", "import subprocess, sys; subprocess.run(sys.argv[1:])"]
    for wrapper, end in (([], signal.SIGTERM), (until_killed, signal.SIGKILL)):
        with until_it_traces(*wrapper) as process:
            process.send_signal(end)
            assert process.stdout is not None
            # Ends when all processes have ended.
            events = [json.loads(line)["event"] for line in process.stdout]
        assert {"done", "failed"}.isdisjoint(events)
        assert [path for path in (folder / "1").glob("*") if path.is_dir()] == []
    shutil.rmtree(folder.with_name("other"))
    (folder / "trace.py").write_text((folder / "trace.py").read_text().replace("sleep(60", "sleep(0"))
    assert run()[0] == 0
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["model.pt", "model.pt.trace.json"]


def test_files_of_a_version_stay_with_it(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE.replace('"labels.txt": b"one\\ntwo\\n"', 'f"{context.version}/words": b"one"'))
    assert run()[0] == 0
    trace = folder / "trace.py"
    trace.write_text(trace.read_text().replace('b"one"', 'b"two"'))
    assert run("--version", "2")[0] == 0
    assert [(folder / version / "words").read_text() for version in ("1", "2")] == ["one", "two"]
    trace.write_text(trace.read_text().replace("/words", "/letters"))
    assert run("--version", "2")[0] == 0
    assert not (folder / "2" / "words").exists()
    assert (folder / "2" / "letters").read_text() == "two"
    assert (folder / "1" / "words").read_text() == "one"
