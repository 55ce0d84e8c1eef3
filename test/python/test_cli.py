"""`python -m tracing` on small repositories."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from conftest import PYTHON, AddModel, Run, command, in_process
from trace_sources import FROZEN, ONNX, SCALE
from tracing.__main__ import main


def sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def test_makes_an_artifact_and_its_record(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE)
    status, events = run()
    artifact = folder / "1" / "model.pt"
    assert status == 0
    assert [(event["event"], event.get("step")) for event in events] == [
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
    assert record["weights"] == done["weights"]
    assert record["packages"]["torch"] == torch.__version__.split("+")[0]
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["model.pt", "model.pt.trace.json"]
    loaded = torch.jit.load(artifact)
    assert not any(parameter.requires_grad for parameter in loaded.parameters())


def test_up_to_date_models_are_detected_without_torch(tmp_path: Path, add_model: AddModel) -> None:
    add_model("scale", SCALE)
    repository = tmp_path / "repo"
    status, events = in_process(repository)
    assert status == 0
    # A torch that cannot be imported.
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "torch.py").write_text("raise RuntimeError('torch was imported')")
    status, again = in_process(repository, python_path=str(tmp_path / "broken"))
    done = events[-1]
    del done["seconds"]
    assert status == 0
    assert again == [{**done, "event": "up-to-date"}]
    status, forced = in_process(repository, "--force", python_path=str(tmp_path / "broken"))
    assert status == 1
    assert forced[-1]["error"] == "RuntimeError: torch was imported"


def _touch_source(folder: Path) -> None:
    with (folder / "trace.py").open("a") as file:
        file.write("# changed\n")


def _touch_config(folder: Path) -> None:
    with (folder / "model.yaml").open("a") as file:
        file.write("# changed\n")


def _truncate(folder: Path) -> None:
    os.truncate(folder / "1" / "model.pt", 10)


def _change_a_byte(folder: Path) -> None:
    artifact = folder / "1" / "model.pt"
    before = artifact.stat()
    content = bytearray(artifact.read_bytes())
    content[-200] ^= 1
    artifact.write_bytes(content)
    os.utime(artifact, ns=(before.st_atime_ns, before.st_mtime_ns))


def _spoil_record(folder: Path) -> None:
    (folder / "1" / "model.pt.trace.json").write_text('{"model": "scale"}')


def _remove_extra_file(folder: Path) -> None:
    (folder / "labels.txt").unlink()


@pytest.mark.parametrize(
    "change", [_touch_source, _touch_config, _truncate, _change_a_byte, _spoil_record, _remove_extra_file]
)
def test_stale_models_are_traced_again(add_model: AddModel, run: Run, change: Callable[[Path], None]) -> None:
    folder = add_model("scale", SCALE)
    run()
    assert run()[1][-1]["event"] == "up-to-date"
    change(folder)
    assert run()[1][-1]["event"] == "done"
    assert run()[1][-1]["event"] == "up-to-date"


def test_a_file_is_read_again_only_after_a_change(
    add_model: AddModel, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_model("scale", SCALE)
    run()
    run()  # reads a file that was written in the same tick of the clock as its record, and dates the record again
    read: list[str] = []

    def sha256_of(path: Path) -> str:
        read.append(path.name)
        return sha256(path)

    monkeypatch.setattr("tracing.sources.sha256_of", sha256_of)
    for touched in (False, True, False):
        if touched:
            (folder / "1" / "model.pt").touch()
        read.clear()
        assert run()[1][-1]["event"] == "up-to-date"
        assert ("model.pt" in read) == touched


def test_makes_the_newest_version_that_is_served(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE)
    run()
    before = sha256(folder / "1" / "model.pt")
    (folder / "trace.py").write_text((folder / "trace.py").read_text().replace("rand(4)", "ones(4)"))
    with (folder / "model.yaml").open("a") as file:
        file.write("version_policy: { specific: { versions: [2, 1] } }\n")
    done = run()[1][-1]
    assert (done["event"], done["version"]) == ("done", 2)
    assert done["artifact"] == str(folder / "2" / "model.pt")
    assert sha256(folder / "1" / "model.pt") == before
    assert run()[1][-1]["event"] == "up-to-date"


@pytest.mark.parametrize(
    "policy", ["[]", "{ specific: }", "{ specific: { versions: 2 } }", "{ latest: { num_versions: 2 } }"]
)
def test_a_policy_without_numbers_makes_version_1(add_model: AddModel, run: Run, policy: str) -> None:
    with (add_model("scale", SCALE) / "model.yaml").open("a") as file:
        file.write(f"version_policy: {policy}\n")
    assert run()[1][-1]["version"] == 1


def test_seed_version_and_force(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE)
    run()
    first = torch.jit.load(folder / "1" / "model.pt").factor
    assert run("--force")[1][-1]["event"] == "done"
    assert torch.equal(torch.jit.load(folder / "1" / "model.pt").factor, first)
    done = run("--seed", "7", "--version", "2")[1][-1]
    assert done["artifact"] == str(folder / "2" / "model.pt")
    assert done["weights"]["description"] == "seeded random weights (seed 7), not pretrained"
    assert not torch.equal(torch.jit.load(folder / "2" / "model.pt").factor, first)
    assert run("--seed", "7")[1][-1]["event"] == "done"


def test_weights_count_by_their_bytes(tmp_path: Path, add_model: AddModel, run: Run) -> None:
    source = SCALE.replace("torch.rand(4)", "torch.load(context.weights)", 1)
    add_model("scale", source.replace("Weights.random(context.seed)", "Weights('pretrained', 'a file')"))
    file = tmp_path / "scale.pth"
    arguments = ("--weights", f"scale={file}")
    torch.save(torch.ones(4), file)
    assert run(*arguments)[1][-1]["event"] == "done"
    torch.save(torch.ones(4), file)
    assert run(*arguments)[1][-1]["event"] == "up-to-date"
    torch.save(torch.full((4,), 2.0), file)
    assert run(*arguments)[1][-1]["event"] == "done"


def test_weights_of_the_users_own_stay_until_others_are_given(tmp_path: Path, add_model: AddModel, run: Run) -> None:
    source = SCALE.replace("torch.rand(4)", "torch.load(context.weights) if context.weights else torch.rand(4)", 1)
    kind = "Weights('pretrained', 'a file') if context.weights else Weights.random(context.seed)"
    folder = add_model("scale", source.replace("Weights.random(context.seed)", kind))
    file = tmp_path / "scale.pth"
    torch.save(torch.ones(4), file)
    run("--weights", f"scale={file}")

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

    assert run("--weights", f"scale={file}")[1][-1]["event"] == "done"
    assert run("--force")[1][-1]["weights"]["kind"] == "random"


def test_weights_that_a_model_does_not_load_are_refused(tmp_path: Path, add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE)
    status, events = run("--weights", f"scale={tmp_path}/w.pth")
    assert status == 1
    assert events[-1] == {
        "event": "failed",
        "model": "scale",
        "error": f"--weights scale={tmp_path}/w.pth was given, but scale does not load weights",
        "hint": "Omit --weights, or load context.weights in trace.py.",
    }
    assert not (folder / "1").exists()


@pytest.mark.slow
def test_a_failed_check_replaces_nothing_and_others_are_made(tmp_path: Path, add_model: AddModel) -> None:
    frozen = add_model("frozen", FROZEN)
    scale = add_model("scale", SCALE)
    (frozen / "1").mkdir()
    (frozen / "1" / "model.pt").write_bytes(b"the one before")
    status, events = in_process(tmp_path / "repo")
    assert status == 1
    failed = next(event for event in events if event["event"] == "failed")
    assert failed == {
        "event": "failed",
        "model": "frozen",
        "error": "output 0 on inputs of shape [2, 4] differs by 0.5 from the eager module; "
        "the model's tolerance is 0.1",
        "hint": "Something was frozen while tracing, or the tolerance in trace.py is too strict. "
        "The trace replaced tensors with fixed numbers in repo/frozen/trace.py:8.",
    }
    assert [path.name for path in (frozen / "1").iterdir()] == ["model.pt"]
    assert (frozen / "1" / "model.pt").read_bytes() == b"the one before"
    assert [event["event"] for event in events if event["model"] == "scale"][-1] == "done"
    assert (scale / "1" / "model.pt").is_file()


@pytest.mark.slow
def test_bytes_do_not_depend_on_the_company_or_the_folder(tmp_path: Path, add_model: AddModel) -> None:
    add_model("scale", SCALE)
    together = add_model("scale_too", SCALE)
    assert in_process(tmp_path / "repo")[0] == 0
    first = sha256(together / "1" / "model.pt")
    with zipfile.ZipFile(together / "1" / "model.pt") as archive:
        assert not [name for name in archive.namelist() if name.endswith(".debug_pkl")]
        assert not [name for name in archive.namelist() if str(tmp_path).encode() in archive.read(name)]
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
        (
            "import torch\ndef export(context):\n    return torch.rand(2) @ torch.rand(3)",
            "pytorch_libtorch",
            "repo/broken/trace.py:3: RuntimeError: inconsistent tensor size",
        ),
        (
            SCALE.replace("x * self.factor", "x @ self.factor[1:]"),
            "pytorch_libtorch",
            "repo/broken/trace.py:12: RuntimeError: size mismatch, got input (1), mat (1x4), vec (3) (inputs of shape "
            "[1, 4]; dims in model.yaml: 'input__0' [-1, 4])",
        ),
        (
            SCALE.replace("x * self.factor", "x * __import__('statistics').fmean(x.flatten())"),
            "pytorch_libtorch",
            "/statistics.py:{line}, called by repo/broken/trace.py:12",
        ),
        ("import torch\n\nx = = 1", "pytorch_libtorch", "repo/broken/trace.py:3: SyntaxError: invalid syntax"),
        (
            SCALE.replace("x * self.factor", "x * torch.rand(4)"),
            "pytorch_libtorch",
            "forward() returns another answer when it is called again with the same inputs: output 0 differs by ",
        ),
        (
            SCALE.replace(
                "self.factor = nn.Parameter(factor)", "self.register_buffer('count', torch.zeros(()))"
            ).replace("return x * self.factor", "self.count += 1; return x + self.count"),
            "pytorch_libtorch",
            "called again with the same inputs: output 0 differs by 1 from the first answer (allowed: 0)",
        ),
        (SCALE, "onnxruntime_onnx", "exports a model.pt, but platform in model.yaml requires a model.onnx"),
        (SCALE, "tensorrt_plan", "platform is 'tensorrt_plan', which npm run trace does not support"),
        (SCALE, "[a", "model.yaml is not valid YAML: "),
        (
            SCALE.replace("labels.txt", "../labels.txt"),
            "pytorch_libtorch",
            "is not a path inside the model folder",
        ),
        (
            SCALE.replace(
                "extra_files={",
                "extra_files={**dict.fromkeys(['./trace.py', 'trace.py', 'model.yaml', 'golden/1/traced-0.json', "
                "'2/vocab.txt', '1/model.pt', '1/model.pt.trace.json', '1/vocab.txt'], b''), ",
            ),
            "pytorch_libtorch",
            "extra_files cannot be written: './trace.py' is not a path inside the model folder, such as labels.txt"
            " or 1/vocab.txt; 'trace.py' is a source of the model, or a golden request; 'model.yaml' is a source of "
            "the model, or a golden request; 'golden/1/traced-0.json' is a source of the model, or a golden request; "
            "'2/vocab.txt' is not in version 1, which is traced; '1/model.pt' is a name of the artifact, its data or "
            "its record; '1/model.pt.trace.json' is a name of the artifact, its data or its record",
        ),
        *(
            (SCALE.replace("[(torch.rand(4, 4),), (torch.rand(1, 4),)]", fresh), "pytorch_libtorch", error)
            for fresh, error in (
                ("[]", "nothing would be checked"),
                ("torch.rand(1, 4)", "fresh_inputs in trace.py is of type Tensor, not a list of tuples of tensors"),
                ("[torch.rand(1, 4)]", "fresh_inputs[0] in trace.py is of type Tensor, not a tuple of tensors"),
                ("[([1.0],)]", "fresh_inputs[0] in trace.py has an element that is of type list, not a tensor"),
                ("((x,) for x in torch.rand(2, 1, 4))", "fresh_inputs in trace.py is of type generator, not a list"),
            )
        ),
        (
            SCALE.replace("(torch.rand(2, 4),)", "torch.rand(2, 4)"),
            "pytorch_libtorch",
            "example_inputs in trace.py is of type Tensor, not a tuple of tensors",
        ),
        *(
            (SCALE.replace("Scale(torch.rand(4))", eager), "pytorch_libtorch", error)
            for eager, error in (
                ("torch.sigmoid", "eager in trace.py is of type builtin_function_or_method, not a torch.nn.Module"),
                ("Scale", "eager in trace.py is the class Scale, not a torch.nn.Module"),
            )
        ),
        (
            SCALE.replace("return x * self.factor", "return [x * self.factor]"),
            "pytorch_libtorch",
            "forward() returns a list, which Triton's PyTorch backend cannot serve: return a tensor or a flat tuple",
        ),
        (
            SCALE.replace("return x * self.factor", "return torch.complex(x, x * self.factor).conj().imag"),
            "pytorch_libtorch",
            "output 0 of forward() has PyTorch's negative bit: its memory has the numbers with the opposite sign",
        ),
        (
            SCALE.replace("torch.rand(4))", "torch.full((4,), 1e-4))").replace("tolerance=0", "tolerance=1e-3"),
            "pytorch_libtorch",
            "the tolerance 0.001 allows every answer in output 0, whose largest number for the fresh_inputs is ",
        ),
        (
            SCALE.replace("x * self.factor", "x * 0"),
            "pytorch_libtorch",
            "nothing was compared: output 0 has only 0, NaN or infinity for all of the fresh_inputs",
        ),
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
            "repo/broken/trace.py:12: forward() uses another number when it is traced again",
        ),
    ],
)
def test_failures(add_model: AddModel, run: Run, trace: str, platform: str, error: str) -> None:
    folder = add_model("broken", trace, platform)
    status, events = run()
    assert status == 1
    assert events[-1]["event"] == "failed"
    said = f"{events[-1]['error']}\n{events[-1]['hint']}"
    assert error in re.sub(r"statistics\.py:\d+", "statistics.py:{line}", said)
    assert not (folder / "1").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--models", "scale,scales"],
            ' has no model "scales"; allowed: own, scale\n    -> did you mean scale?',
        ),
        (["--exclude", "other"], ' has no model "other"; allowed: own, scale\n'),
        (["--weights", "own=x"], ' has no model "own" with a trace.py; allowed: scale'),
        (["--weights", "scales=x"], ' has no model "scales" with a trace.py; allowed: scale'),
    ],
)
def test_unknown_models_are_usage_errors(
    tmp_path: Path, add_model: AddModel, capfd: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    add_model("scale", SCALE)
    (tmp_path / "repo" / "own" / "1").mkdir(parents=True)
    assert main(["--repo", str(tmp_path / "repo"), *arguments]) == 2
    assert message in capfd.readouterr().err


@pytest.mark.parametrize(
    ("files", "file"),
    [
        (["1/model.pt"], "1/model.pt"),
        (["2/model.pt", "10/model.py", "10/vocabulary.txt"], "10"),
        (["model.yaml"], None),
    ],
)
def test_a_model_that_brings_its_file_has_nothing_to_trace(
    tmp_path: Path, run: Run, files: list[str], file: str | None
) -> None:
    for name in files:
        path = tmp_path / "repo" / "ranker" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
    assert run("--models", "ranker") == (0, [{"event": "nothing", "model": "ranker", "file": file}])
    assert run() == (0, [])


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


def test_nothing_is_left_by_a_terminated_run_or_a_killed_one(tmp_path: Path, add_model: AddModel) -> None:
    waits = SCALE.replace("return x * self.factor", "import time; time.sleep(60); return x * self.factor")
    folder = add_model("scale", waits)

    def until_it_traces(*wrapper: str) -> subprocess.Popen[str]:
        arguments = [*wrapper, *command(tmp_path / "repo")]
        process = subprocess.Popen(arguments, cwd=PYTHON, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line).get("step") == "trace":
                break
        time.sleep(0.2)
        return process

    for end, leftovers in ((signal.SIGTERM, 0), (signal.SIGKILL, 1)):
        with until_it_traces() as process:
            process.send_signal(end)
        assert process.returncode == {signal.SIGTERM: 128 + signal.SIGTERM, signal.SIGKILL: -signal.SIGKILL}[end]
        left = list((folder / "1").glob("*"))
        assert [(path / ".gitignore").read_text() for path in left] == ["*\n"] * leftovers
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
    (folder / "trace.py").write_text((folder / "trace.py").read_text().replace("time.sleep(60)", "time.sleep(0)"))
    assert in_process(tmp_path / "repo")[0] == 0
    assert sorted(path.name for path in (folder / "1").iterdir()) == ["model.pt", "model.pt.trace.json"]


def test_files_of_a_version_stay_with_it(add_model: AddModel, run: Run) -> None:
    folder = add_model("scale", SCALE.replace('"labels.txt": b"one\\ntwo\\n"', 'f"{context.version}/words": b"one"'))
    assert run()[0] == 0
    trace = folder / "trace.py"
    trace.write_text(trace.read_text().replace('b"one"', 'b"two"'))
    assert run("--version", "2")[0] == 0
    assert [(folder / version / "words").read_text() for version in ("1", "2")] == ["one", "two"]
    (folder / "2" / "words").write_text("one")
    _, events = run("--version", "2", "--explain")
    assert events[-1]["reasons"] == ["2/words is missing or was changed"]
    trace.write_text(trace.read_text().replace("/words", "/letters"))
    assert run("--version", "2")[0] == 0
    assert not (folder / "2" / "words").exists()
    assert (folder / "2" / "letters").read_text() == "two"
    assert (folder / "1" / "words").read_text() == "one"
