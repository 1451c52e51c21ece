#!/usr/bin/env python3
"""Writes the OpenAPI description of the API over HTTP from the source: docs/reference/openapi.json.

    scripts/openapi.py           writes the file
    scripts/openapi.py --check   says if it is out of date; exit 1 if it is

Addresses come from the tables of server/http, and messages with their meanings from the .proto files.
meshwrightd serves the file at /v1/openapi.json. Only Python's own library is needed.
"""

import json
import pathlib
import re
import sys

from reference_proto import Protos

ROOT = pathlib.Path(__file__).resolve().parents[1]
FILE = "docs/reference/openapi.json"
OWN_ADDRESS = "/v1/openapi.json"
ERROR = "ErrorAnswer"

SCALARS = {
    "int32": {"type": "integer", "format": "int32"},
    "int64": {"type": "integer", "format": "int64"},
    "double": {"type": "number", "format": "double"},
    "bool": {"type": "boolean"},
    "string": {"type": "string"},
    "bytes": {"type": "string", "contentEncoding": "base64"},
}


def ref(name):
    return {"$ref": f"#/components/schemas/{name}"}


class Routes:
    """The addresses of server/http: (method, address, name of the request's message)."""

    READ = re.compile(r'\{"(/v1/[^"]+)",\s*Read<v1::(\w+),')
    CALL = re.compile(r'\{"([A-Z]+)", "(/v1/[^"]+)",\s*\w+<v1::(\w+),')
    WATCH = re.compile(r'kWatchAddress = "([^"]+)"')

    def __init__(self, folder):
        read = (folder / "read_api.cc").read_text()
        self.rows = [("GET", address, request) for address, request in self.READ.findall(read)]
        self.rows += [("GET", address, "WatchStudyRequest") for address in self.WATCH.findall(read)]
        self.trace = re.search(r'kTraceAddress = "([^"]+)"', (folder / "ask_api.cc").read_text()).group(1)
        for name in ("ask_api.cc", "write_api.cc"):
            self.rows += self.CALL.findall((folder / name).read_text())


class Schemas:
    """The messages that the addresses need, as schemas."""

    def __init__(self, protos):
        self.protos, self.asked, self.answered = protos, set(), set()

    def need(self, name, found):
        """Adds the message and all messages in it to a set."""
        if name in found:
            return
        found.add(name)
        for field in self.protos.messages[name].fields:
            for word in re.findall(r"\w+", field.type):
                if word in self.protos.messages:
                    self.need(word, found)

    def of_type(self, name):
        if name.startswith("map<"):
            value = name[4:-1].split(",")[1].strip()
            return {"type": "object", "additionalProperties": self.of_type(value)}
        return dict(SCALARS[name]) if name in SCALARS else ref(name)

    def of_field(self, field):
        schema = self.of_type(field.type)
        if field.is_repeated:
            schema = {"type": "array", "items": schema}
        if field.comment:
            schema["description"] = field.comment
        return schema

    def of_message(self, name):
        message = self.protos.messages[name]
        schema = {"type": "object"}
        if message.comment:
            schema["description"] = message.comment.replace("\n", " ")
        schema["properties"] = {field.name: self.of_field(field) for field in message.fields}
        # Answers always have the fields that cannot be absent; requests leave out what they like.
        always = [field.name for field in message.fields
                  if not field.is_printed_if_stated
                  and (not (field.has_presence or field.type in self.protos.messages) or field.is_repeated)]
        if name in self.asked:
            schema["additionalProperties"] = False  # a field that is not known is an error
        elif always:
            schema["required"] = always
        return schema

    def all(self):
        schemas = {name: self.of_message(name) for name in sorted(self.asked | self.answered)}
        schemas[ERROR] = {
            "type": "object", "required": ["error"],
            "description": "Why a request was not answered.",
            "properties": {"error": ref("CaseError"), "infeasible": ref("Infeasible")}}
        return schemas


def parameters(protos, request, prefix=""):
    """The fields that an address can name: (name, schema, description)."""
    found = []
    for field in protos.messages[request].fields:
        name = prefix + field.name
        if field.type == "map<string, string>":
            found.append((name + ".KEY", SCALARS["string"], field.comment + " KEY stands for a key."))
        elif field.is_repeated or field.type.startswith("map<"):
            continue
        elif field.type in protos.messages:
            found += parameters(protos, field.type, name + ".")
        else:
            found.append((name, SCALARS[field.type], field.comment))
    return found


def parameter(name, place, schema, description):
    made = {"name": name, "in": place, "required": place == "path", "schema": schema}
    if description:
        made["description"] = description.strip()
    return made


def sentence(text):
    """The first sentence of a comment."""
    return re.split(r"(?<=\.) ", text)[0].rstrip(".") if text else ""


def words(name):
    """ListCostModels as "List cost models"."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).capitalize()


class Document:
    """The whole description."""

    def __init__(self):
        self.protos = Protos(ROOT / "proto/meshwright/v1")
        self.schemas = Schemas(self.protos)
        self.calls = {rpc.request: (service, rpc) for service in self.protos.services for rpc in service.rpcs}
        for name in ("CaseError", "Infeasible"):
            self.schemas.need(name, self.schemas.answered)

    def operation(self, method, address, request):
        service, rpc = self.calls[request]
        in_path = re.findall(r"\{(\w+)\}", address)
        made = {"operationId": rpc.name, "tags": [service.name], "summary": sentence(rpc.comment) or words(rpc.name)}
        if rpc.comment:
            made["description"] = rpc.comment
        named = parameters(self.protos, request) if method in ("GET", "DELETE") else [
            (field.name, SCALARS[field.type], field.comment)
            for field in self.protos.messages[request].fields if field.name in in_path]
        made["parameters"] = [parameter(name, "path" if name in in_path else "query", schema, comment)
                              for name, schema, comment in named]
        if rpc.is_stream:
            made["parameters"].append(parameter("Last-Event-ID", "header", SCALARS["string"],
                                                "The last revision that a browser has seen, when it comes back."))
        if method in ("PATCH", "DELETE"):
            made["parameters"].append(parameter("If-Match", "header", SCALARS["string"],
                                                'The etag of the study in quotes; 412 if it has changed since.'))
        if method not in ("GET", "DELETE"):
            self.schemas.need(request, self.schemas.asked)
            made["requestBody"] = {"required": True, "content": {"application/json": {"schema": ref(request)}}}
        made["responses"] = self.responses(rpc)
        return made

    def responses(self, rpc):
        self.schemas.need(rpc.response, self.schemas.answered)
        if rpc.is_stream:
            content = {"text/event-stream": {"schema": {
                "type": "string", "description": "Server-sent events; this is the data of one.",
                "contentMediaType": "application/json", "contentSchema": ref(rpc.response)}}}
        else:
            content = {"application/json": {"schema": ref(rpc.response)}}
        return {"200": {"description": f"`{rpc.response}`", "content": content},
                "default": {"description": "An error, with its reason and every wrong field.",
                            "content": {"application/json": {"schema": ref(ERROR)}}}}

    def trace(self):
        """The simulated step of a plan, which is no message."""
        made = self.operation("GET", "/v1/studies/{study_id}/plans/{rank}", "GetPlanRequest")
        made |= {"operationId": "TraceStudyPlan", "summary": "Trace study plan",
                 "description": "Returns the simulated step of a plan that the study ranked, as `meshwright trace` "
                                "writes it. NOT_FOUND: UNKNOWN_STUDY, UNKNOWN_PLAN."}
        made["responses"]["200"] = {
            "description": "The trace event format, which Perfetto opens",
            "content": {"application/json": {"schema": {"type": "object"}}}}
        return made

    def paths(self):
        paths = {}
        routes = Routes(ROOT / "server/http")
        for method, address, request in routes.rows:
            paths.setdefault(address, {})[method.lower()] = self.operation(method, address, request)
        paths[routes.trace] = {"get": self.trace()}
        paths[OWN_ADDRESS] = {"get": {
            "operationId": "GetOpenApi", "summary": "This description",
            "responses": {"200": {"description": "OpenAPI 3.1",
                                  "content": {"application/json": {"schema": {"type": "object"}}}}}}}
        return paths

    def whole(self):
        paths = self.paths()
        return {
            "openapi": "3.1.0",
            "info": {"title": "Meshwright", "version": "v1",
                     "summary": "How a model should be cut across chips.",
                     "description": "The JSON of the messages that gRPC answers with. POST, PATCH and DELETE "
                                    "below /v1/studies need `meshwrightd --http-writes`.",
                     "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"}},
            "paths": paths,
            "components": {"schemas": self.schemas.all()}}


def main(arguments):
    if arguments not in ([], ["--check"]):
        sys.exit("usage: scripts/openapi.py [--check]")
    made = json.dumps(Document().whole(), indent=1, ensure_ascii=False) + "\n"
    path = ROOT / FILE
    if not arguments:
        path.write_text(made)
        return
    if not path.exists() or path.read_text() != made:
        print(f"{FILE} is not what the source says; run scripts/openapi.py")
        sys.exit(1)


if __name__ == "__main__":
    main(sys.argv[1:])
