"""Messages from the JSON that the command line reads, and back."""

from __future__ import annotations

import difflib
import json
import math
from typing import Any, Dict, List, Mapping, Sequence, Type, TypeVar, Union, cast

from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import Message

from .errors import FieldMistake, invalid_request
from .v1.options_pb2 import printed_if_stated

M = TypeVar("M", bound=Message)

_INT32 = (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SFIXED32)
_INT64 = (FieldDescriptor.TYPE_INT64, FieldDescriptor.TYPE_SINT64, FieldDescriptor.TYPE_SFIXED64)
_REAL = (FieldDescriptor.TYPE_DOUBLE, FieldDescriptor.TYPE_FLOAT)


def parse(kind: Type[M], value: Union[M, Mapping[str, Any]], path: str = "") -> M:
    """Returns `value` as a message. Raises InvalidRequest with every field that the message does not
    have, and every value of another type."""
    if isinstance(value, kind):
        return value
    mistakes: List[FieldMistake] = []
    clean = _message(kind.DESCRIPTOR, value, path, mistakes)
    if mistakes:
        raise invalid_request(mistakes)
    made = kind()
    try:
        json_format.ParseDict(clean, made)
    except json_format.ParseError as error:  # such as a text of digits beyond 64 bits
        raise invalid_request([FieldMistake(path, str(error))]) from error
    return cast(M, made)


def to_dict(message: Message) -> Dict[str, Any]:
    """Returns a message as the JSON that the command line prints: names as in the protos, and also
    fields that are 0, false or empty, except those that may be absent and the lists that the protos
    mark as `printed_if_stated`. 64-bit integers are ints."""
    return _plain(message)


def _plain(message: Message) -> Dict[str, Any]:
    made: Dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if _has_presence(field) and not message.HasField(field.name):
            continue
        value = getattr(message, field.name)
        if not value and field.GetOptions().Extensions[printed_if_stated]:
            continue
        if _is_map(field):
            inner = field.message_type.fields_by_name["value"]
            made[field.name] = {str(key): _value(inner, value[key]) for key in sorted(value)}
        elif _is_repeated(field):
            made[field.name] = [_value(field, one) for one in value]
        else:
            made[field.name] = _value(field, value)
    return made


def _value(field: FieldDescriptor, value: Any) -> Any:
    return _plain(value) if field.message_type is not None else value


def _is_repeated(field: FieldDescriptor) -> bool:
    # Newer protobufs warn of `label`, which older ones need.
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == FieldDescriptor.LABEL_REPEATED)


def _is_map(field: FieldDescriptor) -> bool:
    return field.message_type is not None and bool(field.message_type.GetOptions().map_entry)


def _has_presence(field: FieldDescriptor) -> bool:
    return not _is_repeated(field) and (field.message_type is not None or bool(field.containing_oneof))


def _kind_of(value: Any) -> str:
    names = {bool: "a boolean", int: "a number", float: "a number", str: "a text", type(None): "null"}
    return names.get(type(value), "an object" if isinstance(value, Mapping) else type(value).__name__)


def _message(descriptor: Descriptor, value: Any, path: str, mistakes: List[FieldMistake]) -> Dict[str, Any]:
    if isinstance(value, Message) and value.DESCRIPTOR.full_name == descriptor.full_name:
        made: Dict[str, Any] = json_format.MessageToDict(value, preserving_proto_field_name=True)
        return made
    if not isinstance(value, Mapping):
        mistakes.append(FieldMistake(path, f"{_kind_of(value)}; must be an object ({descriptor.name})"))
        return {}
    clean: Dict[str, Any] = {}
    for name, inner in value.items():
        where = f"{path}.{name}" if path else str(name)
        field = descriptor.fields_by_name.get(name)
        if field is None:
            mistakes.append(FieldMistake(where, _unknown(str(name), descriptor)))
        elif inner is None:  # as absent, as in protobuf's JSON
            continue
        elif _is_map(field):
            clean[name] = _map(field, inner, where, mistakes)
        elif _is_repeated(field):
            clean[name] = _list(field, inner, where, mistakes)
        else:
            clean[name] = _scalar(field, inner, where, mistakes)
    return clean


def _unknown(name: str, descriptor: Descriptor) -> str:
    known = list(descriptor.fields_by_name)
    closest = difflib.get_close_matches(name, known, n=1)
    hint = f"the closest is {closest[0]}" if closest else f"there are {', '.join(known)}"
    return f"unknown; not a field of {descriptor.name}, of which {hint}"


def _map(field: FieldDescriptor, value: Any, path: str, mistakes: List[FieldMistake]) -> Dict[str, Any]:
    if not isinstance(value, Mapping):
        mistakes.append(FieldMistake(path, f"{_kind_of(value)}; must be an object"))
        return {}
    inner = field.message_type.fields_by_name["value"]
    return {str(key): _scalar(inner, one, f"{path}.{key}", mistakes) for key, one in value.items()}


def _list(field: FieldDescriptor, value: Any, path: str, mistakes: List[FieldMistake]) -> List[Any]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        mistakes.append(FieldMistake(path, f"{_kind_of(value)}; must be a list"))
        return []
    return [_scalar(field, one, f"{path}[{index}]", mistakes) for index, one in enumerate(value)]


def _scalar(field: FieldDescriptor, value: Any, path: str, mistakes: List[FieldMistake]) -> Any:
    if field.message_type is not None:
        return _message(field.message_type, value, path, mistakes)
    wanted = _wanted(field, value)
    if wanted:
        mistakes.append(FieldMistake(path, f"{json.dumps(value, default=str)}; must be {wanted}"))
        return None
    return int(value) if field.type in _INT32 else value


def _wanted(field: FieldDescriptor, value: Any) -> str:
    """Returns the values that the field takes, or nothing if this is one of them."""
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if field.type == FieldDescriptor.TYPE_BOOL:
        return "" if isinstance(value, bool) else "true or false"
    if field.type == FieldDescriptor.TYPE_STRING:
        return "" if isinstance(value, str) else "a text"
    if field.type in _REAL:
        return "" if is_number and math.isfinite(value) else "a number"
    if field.type in _INT64 and isinstance(value, str) and value.lstrip("-").isdigit():
        return ""  # as protobuf's JSON prints them
    if field.type in _INT32 or field.type in _INT64:
        bits = 31 if field.type in _INT32 else 63
        is_whole = is_number and math.isfinite(value) and value == int(value)
        return "" if is_whole and -2**bits <= value < 2**bits else f"a whole number of {bits + 1} bits"
    return "a value of another type"
