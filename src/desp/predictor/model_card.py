"""A model card: inputs and outputs of a saved predictor, and how it was trained."""

import hashlib
from typing import TYPE_CHECKING, Any

from desp import __version__
from desp.settings import MethodSettings

if TYPE_CHECKING:
    from desp.predictor.predictor import SetPredictor

_MARK = "\n<!-- Saving writes this file anew unless it was edited, told by its checksum: "

_CARD = """---
library_name: desp
tags:
- set-prediction
---

# A set predictor

{predicts} Saved by desp {version}.

## How to use it

```python
from desp import SetPredictor

predictor = SetPredictor.from_pretrained("PATH OR NAME OF THIS MODEL"{encoder})
predictions = predictor.predict(inputs, samples=5)  # a list: sets of each input, in the units of the training data
predictor.predict(inputs, best=True)  # one set for each input
```

## What it takes and gives

| | |
|---|---|
{shapes}

## How it was trained

| | |
|---|---|
{training}

## Limits

- Sets are never larger than {size} elements.
- Predictions for inputs unlike those of training may mean nothing. Where the encoder standardises vectors or
  elements, `predict` warns of inputs that are more than 10 standard deviations away.
{energy}
- Which data it was trained on, who may use it, and whom its errors harm is for its author to add here.

`config.json` holds all settings and the shapes of inputs and sets, `model.safetensors` the weights.
"""


def model_card(predictor: "SetPredictor") -> str:
    """The card of a fitted predictor, as Markdown."""
    shape, method = predictor.shape, predictor.method_settings
    text = _CARD.format(
        predicts=_what_it_predicts(method),
        version=__version__,
        encoder="" if predictor.input_encoder is None else ", input_encoder=MyEncoder()",
        shapes=_table(_shapes(predictor)),
        training=_table(_training(predictor)),
        size=shape.max_size,
        energy=_about_energies(method.has_energy, method.predicts_cardinality),
    )
    return text + _last_line(text)


def _what_it_predicts(method: MethodSettings) -> str:
    if method.deterministic:
        return "Predicts one set for each input: its method is deterministic."
    sampler = method.prediction_sampler
    if not method.samples_follow_data or not (sampler is None or sampler.follows_distribution):
        return "Predicts K sets for each input, which need not be as different as those of the training data."
    if not method.learns_dependence:
        return (
            "Predicts sets where more than one answer is right: for one input it gives K sets, whose elements\n"
            "follow the training data each by itself. How elements depend on each other is not learned."
        )
    return (
        "Predicts sets where more than one answer is right: for one input it gives K sets, approximately in\n"
        "the proportions of the training data."
    )


def is_edited(card: str) -> bool:
    """Whether a card was changed since `model_card` wrote it, so that replacing it would lose somebody's work."""
    text, mark, _ = card.rpartition(_MARK)
    return not mark or card != text + _last_line(text)


def _last_line(text: str) -> str:
    return f"{_MARK}{hashlib.sha256(text.encode()).hexdigest()[:16]} -->\n"


def _shapes(predictor: "SetPredictor") -> dict[str, Any]:
    shape = predictor.shape
    described = shape.description
    presence = ", presence included" if shape.input_kind == "set" else ""
    categories = [f"{first} to {end - 1}" for first, end in described.categories]
    boxes = [f"{first} to {end - 1}" for first, end in described.boxes]
    return {
        "input": f"{shape.input_kind} of shape {tuple(shape.input_shape)}{presence}",
        "columns of the input": ", ".join(described.input_columns),
        "elements": f"at most {shape.max_size}, of {shape.features} features",
        "features": ", ".join(described.feature_columns),
        "one-hot features": ", ".join(categories),
        "boxes (left, top, right, bottom)": ", ".join(boxes),
        "aligned": "element i of a set belongs to element i of its input" if shape.aligned else "",
    }


def _training(predictor: "SetPredictor") -> dict[str, Any]:
    facts, method = predictor.facts, predictor.method_settings
    score = facts.get("validation_score")
    weights = sum(item.numel() for item in predictor.method.parameters())
    return {
        "method": f"{method.kind}{f': {method.summary}' if method.summary else ''}",
        "weights": f"{weights:,}",
        "examples": facts.get("examples"),
        "steps": facts.get("steps"),
        "seed": facts.get("seed"),
        "step of these weights": facts.get("kept_step"),
        "validation score of these weights": None if score is None else f"{score:.4g}",
    }


def _about_energies(has_energy: bool, by_cardinality: bool) -> str:
    if not has_energy:
        return "- The method has no energy: nothing tells which of several predictions is more plausible."
    among = "one input and cardinality" if by_cardinality else "one input"
    return f"- Energies of sets compare among those of {among} alone; lower is more plausible."


def _table(rows: dict[str, Any]) -> str:
    """The rows that have a value, as Markdown; bars are escaped, as they would end a cell."""
    told = {name: str(value).replace("|", r"\|") for name, value in rows.items() if value not in (None, "")}
    return "\n".join(f"| {name} | {value} |" for name, value in told.items())
