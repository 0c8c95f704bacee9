"""Settings for people and for editors: a TOML file with every default, range and meaning, and its JSON schema."""

import json
import textwrap
from typing import Any

import tomlkit

from wstar.experiments.config import Config

_WIDTH = 100
_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def commented_toml(kind: str, config: type[Config], chosen: Config | None = None) -> str:
    """Every field of ``config`` with its meaning and range, at its default or as ``chosen``: a config file by itself.

    A field that is absent (by default or by choice) and one that has to be given are commented out.
    """
    lines = [*_comment(_first_sentence(config)), f"kind = {_toml(kind)}"]
    properties = _schema(config)["properties"]
    for name, field in config.model_fields.items():
        value = getattr(chosen, name) if chosen else None if field.is_required() else field.default
        takes = expected(properties[name])
        if value is None:
            takes += "; has to be given" if field.is_required() else "; absent by default"
        lines += ["", *_comment(f"{field.description}  [{takes}]")]
        lines.append(f"# {name} =" if value is None else f"{name} = {_toml(value)}")
    return "\n".join(lines) + "\n"


def json_schema(kind: str, config: type[Config]) -> dict[str, Any]:
    """The JSON schema of config files of this ``kind``, for editors that check TOML as it is written."""
    schema = _schema(config)
    known = {
        "kind": {"const": kind, "description": "which experiment the file is for"},
        "versions": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "description": "of what wrote the file; read by people alone",
        },
    }
    return {"$schema": _DIALECT, **schema, "title": f"wstar {kind}", "properties": known | schema["properties"]}


def expected(schema: dict[str, Any]) -> str:
    """What a field takes, in words: ``whole number, 0 to 60``.

    Args:
        schema: its JSON schema.
    """
    if "anyOf" in schema:
        schema = next(part for part in schema["anyOf"] if part.get("type") != "null")
    if "enum" in schema or "const" in schema:
        return "one of " + ", ".join(_toml(choice) for choice in schema.get("enum", [schema.get("const")]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {expected(schema['items'])}"
    words = {"integer": "whole number", "number": "number", "boolean": "true or false", "string": "text"}
    return words.get(str(kind), "table") + _range(schema)


def _range(schema: dict[str, Any]) -> str:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        return f", {least:g} to {most:g}"
    bounds = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}
    said = [f"{sign} {schema[bound]:g}" for bound, sign in bounds.items() if bound in schema]
    return " " + " and ".join(said) if said else ""


def _schema(config: type[Config]) -> dict[str, Any]:
    return config.model_json_schema()


def _first_sentence(config: type[Config]) -> str:
    return textwrap.dedent(config.__doc__ or "").strip().partition("\n\n")[0].replace("``", "`")


def _comment(text: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent="# ", subsequent_indent="# ")


def _toml(value: Any) -> str:
    """``value`` as TOML writes it."""
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return tomlkit.item(value).as_string()
