"""What sections of a file have in common, and how a section is chosen by the plug-in that it names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    SerializeAsAny,
    ValidationError,
    model_validator,
)
from pydantic_core import InitErrorDetails, PydanticCustomError

from entente.errors import UsageError
from entente.registry import AGGREGATORS, DETECTORS, Registry, suggestion


class Section(BaseModel):
    """One table of a TOML file. It cannot be changed, and a key that it does not have is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    moved: ClassVar[Mapping[str, str]] = {}
    """Keys of earlier versions, each with where it went."""

    @model_validator(mode="before")
    @classmethod
    def _only_known_keys(cls, given: Any) -> Any:
        unknown = [key for key in given if key not in cls.model_fields] if isinstance(given, Mapping) else []
        if unknown:
            errors = [
                InitErrorDetails(
                    type=PydanticCustomError("unknown_key", "{what}", {"what": cls._unknown(key)}),
                    loc=(key,),
                    input=given[key],
                )
                for key in unknown
            ]
            raise ValidationError.from_exception_data(cls.__name__, errors)
        return given

    @classmethod
    def _unknown(cls, key: str) -> str:
        if key in cls.moved:
            return cls.moved[key]
        return f"unknown key. {suggestion(key, cls.model_fields)}"


class DetectorOptions(Section):
    """A detector's part of an experiment. A detector with options of its own extends this class.

    >>> class MyOptions(entente.DetectorOptions):
    ...     name: str = "my-detector"
    ...     width: int = 32
    >>> MyOptions(width=16).width
    16
    """

    name: str
    """See `entente detectors`."""


class AggregationOptions(Section):
    """An aggregation rule's part of an experiment. A rule with options of its own extends this class.

    >>> class MyOptions(entente.AggregationOptions):
    ...     rule: str = "my-rule"
    >>> MyOptions().rule
    'my-rule'
    """

    rule: str
    """See `entente aggregators`."""


def options_of(registry: Registry, key: str, given: Any) -> Any:
    """`given` (a table or a section) as the options of the plug-in that its `key` names."""
    if isinstance(given, Section):
        name = getattr(given, key)
    elif isinstance(given, Mapping) and isinstance(given.get(key), str):
        name = given[key]
    else:
        return given
    try:
        options: type[Section] = registry.load(name).Options
    except UsageError as error:
        problem = PydanticCustomError("unknown_plugin", "{what}", {"what": f"{error.what}. {error.remedy}"})
        details = InitErrorDetails(type=problem, loc=(key,), input=name)
        raise ValidationError.from_exception_data(options_of.__name__, [details]) from error
    if isinstance(given, options):
        return given
    table = given.model_dump(exclude_unset=True) if isinstance(given, Section) else given
    return options.model_validate(table)


DEFAULT_DETECTOR = "behaviour"
DEFAULT_RULE = "entente"


def _named(given: Any, key: str, name: str) -> Any:
    return {key: name, **given} if isinstance(given, Mapping) else given


def detector_options(given: Any) -> Any:
    """The options that a `[detector]` table describes."""
    return options_of(DETECTORS, "name", _named(given, "name", DEFAULT_DETECTOR))


def aggregation_options(given: Any) -> Any:
    """The options that a `[federation.aggregation]` table describes."""
    return options_of(AGGREGATORS, "rule", _named(given, "rule", DEFAULT_RULE))


ChosenDetector = Annotated[SerializeAsAny[DetectorOptions], BeforeValidator(detector_options)]
ChosenAggregation = Annotated[SerializeAsAny[AggregationOptions], BeforeValidator(aggregation_options)]
