"""Questions from the files and values that the command line takes."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any, Mapping, Optional, Union

from . import v1
from ._messages import parse
from .errors import FieldMistake, invalid_request

Json = Mapping[str, Any]
Path = Union[str, "os.PathLike[str]"]

Question = Union[v1.TuneRequest, Json]
ModelInput = Union[v1.Model, Json, Path]
WorkloadInput = Union[v1.Workload, Json, Path]
ClusterInput = Union[v1.Cluster, Json, Path]
PlanInput = Union[v1.Plan, Json]


def question(model: ModelInput, workload: WorkloadInput, cluster: ClusterInput, *,
             baseline: Optional[PlanInput] = None, **fields: Any) -> v1.TuneRequest:
    """Returns a question. A text is the path of a JSON file, such as `--model`, `--workload` and
    `--cluster` take. A model may be the config.json of a Hugging Face model, or the folder with it.
    `fields` are the other fields of TuneRequest, such as plan_count=3. Raises InvalidRequest with
    every mistake in the form of a question; what only the server can judge, it judges."""
    stated = {"model": _load(model, "model"), "workload": _load(workload, "workload"),
              "cluster": _load(cluster, "cluster"), **fields}
    if baseline is not None:
        stated["baseline"] = baseline
    return to_question(stated)


def to_question(value: Question) -> v1.TuneRequest:
    """Returns a question from its JSON, whose model may be that of Hugging Face."""
    if isinstance(value, v1.TuneRequest):
        return value
    if isinstance(value, Mapping) and is_hugging_face(value.get("model")):
        try:
            value = {**value, "hugging_face_config_json": json.dumps(value["model"]), "model": None}
        except (TypeError, ValueError) as error:
            raise invalid_request([FieldMistake("model", f"a value that is not JSON: {error}")]) from error
    return parse(v1.TuneRequest, value)


def is_hugging_face(model: Any) -> bool:
    """Returns True for the content of a config.json of the Hugging Face hub."""
    return isinstance(model, Mapping) and ("model_type" in model or "architectures" in model)


def to_case(value: Union[v1.EvaluateCase, Json], index: int) -> v1.EvaluateCase:
    path = f"cases[{index}]"
    if isinstance(value, Mapping) and is_hugging_face(value.get("model")):
        raise invalid_request([FieldMistake(
            f"{path}.model", "the config.json of a Hugging Face model; must be a model in Meshwright's own format")])
    return parse(v1.EvaluateCase, value, path)


def _load(value: Any, name: str) -> Any:
    if not isinstance(value, (str, os.PathLike)):
        return value
    path = pathlib.Path(value)
    if path.is_dir():
        path = path / "config.json"
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise invalid_request([FieldMistake(name, f"'{path}' cannot be read: {error.strerror}")]) from error
    except ValueError as error:
        raise invalid_request([FieldMistake(name, f"'{path}' is not JSON: {error}")]) from error
