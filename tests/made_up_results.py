"""Results as files hold them, made up."""

from typing import Any


def made_up(recipe: str, seed: int, raw: float, returned: float, **more: Any) -> dict[str, Any]:
    """A result as `desp evaluate --record` writes it, reduced to what tables use."""
    return {
        "recipe": recipe,
        "seed": seed,
        "data": "generated",
        "scores": {"raw": {"score": raw}, "returned": {"score": returned, "size_rmse": 0.25}},
        "real_data": {"score": 5e-7},
        "changed_settings": [],
        **more,
    }
