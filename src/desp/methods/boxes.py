"""Boxes in images: what the methods that read an image at boxes share."""

from desp.data.shape import DataShape
from desp.settings import require_setting

# The largest offset + span of the scaling of boxes (centre, width, height) that counts as normalised; pixels are
# far above. With scaling auto, offset + span is the largest value of a feature, or, of a constant one, that value
# plus 1/2; with standard it is mean + 2 sd, or more where there is a long tail.
LARGEST_NORMALISED = 2.0


def require_boxes(shape: DataShape) -> None:
    """Check that the first features of elements are one box, normalised by the image's width and height, 0 to 1.

    Raises:
        SettingsError: they are not.
    """
    wanted = "((0, 4),) for methods that read an image at boxes: left, top, right, bottom"
    require_setting(shape.description.boxes == ((0, 4),), "description.boxes", wanted, shape.description.boxes)
    scaling = shape.scaling
    if scaling.boxes:  # else nothing is known of their range
        largest = max(offset + span for offset, span in zip(scaling.offset[:4], scaling.span[:4], strict=True))
        wanted = "normalised by the image's width and height, 0 to 1: divide pixels by them"
        require_setting(largest <= LARGEST_NORMALISED, "boxes", wanted, f"values of about {largest:g} and more")
