"""Methods that read an image at boxes: what every predictor promises, on images of bright squares."""

from copy import deepcopy
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from small_predictors import SHORT, Pairs
from torch import Tensor, nn

from desp.boxes import box_iou, corners_to_centres
from desp.data.shape import DataShape
from desp.errors import SettingsError
from desp.methods import build_method
from desp.predictor import Prediction, SetPredictor
from desp.predictor.box_fusion import best_prediction
from desp.randomness import make_generator
from desp.scaling import FeatureScaling
from desp.sets import SetBatch, SetRepresentation
from desp.settings import (
    BoxDenoiserSettings,
    ContrastiveSettings,
    ConvEncoderSettings,
    DataDescription,
    DetectorSettings,
    EDMSettings,
    LangevinSettings,
    MethodSettings,
    PyramidEncoderSettings,
    RepresentationSettings,
    ScalingEncoderSettings,
    SetEncoderEnergySettings,
    TrainingSettings,
)

SIDE, MOST = 32, 3
BOXES = DataDescription(boxes=((0, 4),))
PYRAMID = PyramidEncoderSettings(hidden=8, out=8)
# A few steps of sampling, and cardinalities that are sampled, so that sets of one image differ.
DENOISER = BoxDenoiserSettings(
    encoder=PYRAMID,
    sampler=EDMSettings(steps=3),
    noise_draws=2,
    hidden=8,
    layers=1,
    heads=2,
    fourier_frequencies=2,
    points=2,
)
METHODS: dict[str, MethodSettings] = {
    "detector": DetectorSettings(encoder=PYRAMID, hidden=8),
    "box-denoiser": DENOISER,
    "box-denoiser, presence denoised": replace(DENOISER, cardinality="denoised"),
}
each_method = pytest.mark.parametrize("name", METHODS)


def images_of_boxes(count: int, most: int = MOST, seed: int = 3) -> Pairs:
    """Black images with up to `most` bright rectangles, of six to fourteen pixels, and their corners as shares."""
    generator = torch.Generator().manual_seed(seed)
    pairs = []
    for index in range(count):
        image, boxes = torch.zeros(1, SIDE, SIDE), []
        for _ in range(1 + index % most):
            width, height = torch.randint(6, 15, (2,), generator=generator).tolist()
            left = int(torch.randint(0, SIDE - width + 1, (), generator=generator))
            top = int(torch.randint(0, SIDE - height + 1, (), generator=generator))
            image[:, top : top + height, left : left + width] = 1.0
            boxes.append([left, top, left + width, top + height])
        pairs.append((image, torch.tensor(boxes, dtype=torch.float32) / SIDE))
    return pairs


def fit(method: MethodSettings, pairs: Pairs, training: TrainingSettings = SHORT, **options: Any) -> SetPredictor:
    predictor = SetPredictor(method, device="cpu")
    predictor.fit(pairs, training, **{"description": BOXES, **options})
    return predictor


@cache
def fitted_once(name: str) -> SetPredictor:
    return fit(METHODS[name], images_of_boxes(8))


def fitted(name: str) -> SetPredictor:
    """The method, fitted for a few steps; a copy, which tests may change."""
    return deepcopy(fitted_once(name))


def images(count: int = 3) -> Tensor:
    return torch.stack([image for image, _ in images_of_boxes(count)])


def all_sets(predictor: SetPredictor, samples: int = 2, seed: int = 0) -> list[list[list[float]]]:
    found = predictor.predict(images(), samples, seed=seed)
    return [elements.tolist() for prediction in found for elements in prediction.sets]


# -- the contract ------------------------------------------------------------------------------------------


@each_method
def test_an_image_gives_k_sets_of_boxes(name: str) -> None:
    predictor = fitted(name)
    assert predictor.shape.input_kind == "image"
    assert (predictor.shape.features, predictor.shape.max_size) == (4, MOST)
    assert predictor.shape.scaling.boxes == BOXES.boxes
    predictions = predictor.predict(images(), samples=5)
    assert [len(item) for item in predictions] == [5, 5, 5]
    for prediction in predictions:
        assert {item.shape[1] for item in prediction.sets} == {4}
        assert all(len(item) <= MOST for item in prediction.sets)
        assert prediction.energies.isnan().all() == prediction.energies.isnan().any() == (name == "detector")


@each_method
def test_no_images_give_no_predictions(name: str) -> None:
    for best in (False, True):
        assert fitted(name).predict(images()[:0], best=best) == []


@each_method
def test_every_weight_is_trained(name: str) -> None:
    fresh = SetPredictor(METHODS[name])
    trained = fitted(name)
    fresh.build(trained.shape)
    before, after = fresh.method.state_dict(), trained.method.state_dict()
    still = [item for item, _ in trained.method.named_parameters() if torch.equal(before[item], after[item])]
    # A heat map is made from the finest level alone, which the others reach before they are smoothed.
    unread = ("encoder.smooth.1.", "encoder.smooth.2.") if name == "detector" else ()
    assert [item for item in still if not item.startswith(unread)] == []


@each_method
def test_every_weight_has_a_gradient(name: str) -> None:
    """Processes that train together wait for those of every weight, be they zero."""
    method = fitted(name).method
    padded = fitted(name).sets_to_tensor(SetBatch.from_ragged([boxes for _, boxes in images_of_boxes(3)]))
    loss, _ = method(images(), padded, torch.Generator().manual_seed(0))
    loss.backward()
    assert [item for item, weight in method.named_parameters() if weight.grad is None] == []


@each_method
def test_a_fit_and_its_predictions_depend_on_their_seeds_alone(name: str) -> None:
    first = fitted(name)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    second = fit(METHODS[name], images_of_boxes(8))
    assert torch.equal(torch.get_rng_state(), state)
    for item, value in first.method.state_dict().items():
        assert torch.equal(second.method.state_dict()[item], value), item
    assert all_sets(first, seed=4) == all_sets(second, seed=4)
    assert (all_sets(first, seed=4) != all_sets(first, seed=5)) == (not METHODS[name].deterministic)


@each_method
def test_samples_of_one_image_differ_but_for_the_detector(name: str) -> None:
    predictor = fitted(name)
    raw, _ = predictor.sample(predictor.encode(images(1).repeat(4, 1, 1, 1)), make_generator(0, "predict"))
    assert raw.shape == (4, MOST, 5)
    assert all(torch.equal(raw[0], other) for other in raw[1:]) == METHODS[name].deterministic


@each_method
def test_each_prediction_belongs_to_its_image(name: str) -> None:
    predictor, batch = fitted(name), images(6)
    changed = batch.clone()
    changed[2] = 1 - changed[2]
    codes = (predictor.encode(item).repeat_interleave(4, dim=0) for item in (batch, changed))
    raw, others = (predictor.sample(code, make_generator(0, "predict"))[0].split(4) for code in codes)
    assert [index for index in range(6) if not torch.allclose(raw[index], others[index], atol=1e-6)] == [2]


@each_method
def test_training_resumes_bit_for_bit(name: str, tmp_path: Path) -> None:
    training = replace(SHORT, steps=4, checkpoint_every=2, ema_decay=0.9, clip_norm=1.0)
    whole = fit(METHODS[name], images_of_boxes(8), training, folder=tmp_path / "whole")
    fit(METHODS[name], images_of_boxes(8), replace(training, steps=2), folder=tmp_path / "parts")
    parts = fit(METHODS[name], images_of_boxes(8), training, folder=tmp_path / "parts", resume=True)
    for item, value in whole.method.state_dict().items():
        assert torch.equal(parts.method.state_dict()[item], value), item


@each_method
def test_a_loaded_predictor_predicts_the_same(name: str, tmp_path: Path) -> None:
    predictor = fitted(name)
    predictor.save_pretrained(tmp_path)
    loaded = SetPredictor.from_pretrained(tmp_path, device="cpu")
    assert loaded.method_settings == METHODS[name]
    assert loaded.shape == predictor.shape
    assert loaded.shape.scaling.boxes == BOXES.boxes
    assert all_sets(loaded, seed=2) == all_sets(predictor, seed=2)


@each_method
def test_images_without_boxes_are_learned_from_and_predicted_for(name: str) -> None:
    pairs = [(torch.zeros(1, SIDE, SIDE), torch.empty(0, 4)), *images_of_boxes(5)]
    assert len(fit(METHODS[name], pairs).predict_one(pairs[0][0], 2)) == 2


def test_a_denoised_presence_masks_no_row() -> None:
    """It carries noise, so that its sign does not tell which rows are boxes."""
    rows = torch.randn(3, MOST, 5, generator=torch.Generator().manual_seed(0))
    rows[:, 1:, -1] = -1.0
    sigma = torch.full((3,), 0.5)
    for name, masked in (("box-denoiser", True), ("box-denoiser, presence denoised", False)):
        predictor = fitted(name)
        flow = predictor.method._flow(predictor.encode(images()), rows)  # type: ignore[operator]
        _, network = flow.network(rows, sigma)
        assert network[:, :1].any(dim=-1).all()
        assert (network[:, 1:] == 0).all() == masked


# -- the detector's confidence -----------------------------------------------------------------------------


@each_method
def test_a_prediction_holds_the_presence_of_its_elements(name: str) -> None:
    for prediction in fitted(name).predict(images(), samples=2):
        assert [len(item) for item in prediction.presence] == [len(item) for item in prediction.sets]
        threshold = fitted(name).method.representation.threshold
        assert all((item > threshold).all() for item in prediction.presence)


def test_the_presence_of_a_detection_is_its_confidence() -> None:
    """All peaks are in the padded set, the surest first; a user gets those that are more likely than not."""
    predictor = fitted("detector")
    nn.init.constant_(predictor.method.head.heat[-1].bias, 0.0)  # type: ignore[union-attr, index]
    code = predictor.encode(images(6))
    raw, _ = predictor.sample(code, make_generator(0, "predict"))
    boxes, scores = predictor.method.head.peaks(code, MOST)  # type: ignore[operator, union-attr]
    assert torch.equal(raw[..., -1], scores)
    assert ((raw[..., -1] >= 0) & (raw[..., -1] <= 1)).all()
    assert (raw[..., -1].diff(dim=1) <= 0).all()
    corners = predictor.shape.scaling.unscale(raw[..., :4])
    torch.testing.assert_close(corners_to_centres(corners), boxes, rtol=1e-4, atol=1e-5)
    kept = [len(prediction.sets[0]) for prediction in predictor.predict(images(6))]
    assert kept == (scores > 0.5).sum(dim=1).tolist()
    assert 0 < sum(kept) < 6 * MOST


def test_a_bright_square_is_found() -> None:
    """As one box, although there is room for three; in images that were not trained on."""
    training = replace(SHORT, steps=100, batch_size=16, learning_rate=5e-3, warmup_steps=10, lr_schedule="cosine")
    method = DetectorSettings(encoder=PyramidEncoderSettings(hidden=8, out=16), hidden=16)
    predictor = SetPredictor(method, RepresentationSettings(max_size=MOST), device="cpu")
    predictor.fit(images_of_boxes(256, most=1), training, description=BOXES)
    unseen = images_of_boxes(20, most=1, seed=99)
    predictions = predictor.predict(torch.stack([image for image, _ in unseen]))
    found = 0
    for prediction, (_, truth) in zip(predictions, unseen, strict=True):
        (boxes,) = prediction.sets
        assert (boxes >= -0.1).all()
        assert (boxes <= 1.1).all()
        assert (boxes[:, 2:] > boxes[:, :2]).all()
        found += len(boxes) == 1 and float(box_iou(boxes, truth)) > 0.5
    assert found >= 18


# -- mistakes ----------------------------------------------------------------------------------------------


@each_method
def test_another_encoder_is_refused(name: str) -> None:
    method = replace(METHODS[name], encoder=ConvEncoderSettings(hidden=8, out=8))
    message = f"The method {method.kind} needs images and the encoder 'pyramid', which gives a code for each of 84"
    with pytest.raises(SettingsError, match=message):
        fit(method, images_of_boxes(4))


class Shrunk(nn.Module):
    """A user's own encoder, with a code for each of too few places."""

    def forward(self, x: Tensor) -> Tensor:
        return nn.functional.avg_pool2d(x, 8).flatten(2).transpose(1, 2)


@each_method
def test_an_own_encoder_without_all_locations_is_refused(name: str) -> None:
    predictor = SetPredictor(METHODS[name], device="cpu", input_encoder=Shrunk())
    with pytest.raises(SettingsError, match=r"each of 84 locations; this one gives shape \(16, 1\) for one input"):
        predictor.fit(images_of_boxes(4), SHORT, description=BOXES)


@each_method
@pytest.mark.parametrize("boxes", [(), ((1, 5),), ((0, 4), (4, 8))])
def test_elements_must_begin_with_one_box(name: str, boxes: Any) -> None:
    shape = DataShape((1, SIDE, SIDE), 8, MOST, input_kind="image", description=DataDescription(boxes=boxes))
    with pytest.raises(SettingsError, match=r"^description.boxes must be \(\(0, 4\),\) for methods that read an"):
        build_method(METHODS[name], shape, SetRepresentation(RepresentationSettings()))


@each_method
@pytest.mark.parametrize("encoder", [None, PYRAMID])
def test_inputs_must_be_images(name: str, encoder: PyramidEncoderSettings | None) -> None:
    method, pairs = (
        replace(METHODS[name], encoder=encoder),
        [(torch.rand(3), boxes) for _, boxes in images_of_boxes(4)],
    )
    of_default = f"inputs must be images for the method {method.kind}, got 'vector'"
    message = of_default if encoder is None else "encoder must be one for inputs of kind 'vector', got 'pyramid'"
    with pytest.raises(SettingsError, match=f"^{message}"):
        fit(method, pairs)


@each_method
def test_boxes_in_pixels_are_refused(name: str) -> None:
    pairs = [(image, boxes * SIDE) for image, boxes in images_of_boxes(4)]
    with pytest.raises(
        SettingsError,
        match=r"^boxes must be normalised by the image.s width and height, 0 to 1: divide .* about \d+ and more",
    ):
        fit(METHODS[name], pairs)


@each_method
def test_aligned_outputs_are_refused(name: str) -> None:
    shape = DataShape((MOST, 5), 4, MOST, input_kind="set", description=DataDescription(aligned=True))
    with pytest.raises(
        SettingsError, match=r"^method must be energy-denoising, denoiser, engression, contrastive"
    ):
        build_method(METHODS[name], shape, SetRepresentation(RepresentationSettings()))


def test_a_detector_has_boxes_alone_and_no_more_than_places() -> None:
    shape = DataShape((1, SIDE, SIDE), 6, MOST, input_kind="image", description=BOXES)
    with pytest.raises(SettingsError, match=r"^features must be 4 for the method detector: .* got 6"):
        build_method(METHODS["detector"], shape, SetRepresentation(RepresentationSettings()))
    many = replace(shape, features=4, max_size=65, scaling=FeatureScaling((), ()))
    with pytest.raises(SettingsError, match=r"^max_size must be at most 64, the locations of the heat map"):
        build_method(METHODS["detector"], many, SetRepresentation(RepresentationSettings()))


def test_a_denoiser_has_other_features_beside_boxes() -> None:
    """A kind of each box, for example; an auxiliary detector sees the boxes alone."""
    pairs = [
        (image, torch.cat([boxes, torch.eye(2)[torch.arange(len(boxes)) % 2]], 1))
        for image, boxes in images_of_boxes(6)
    ]
    described = replace(BOXES, categories=((4, 6),))
    found = fit(DENOISER, pairs, description=described).predict_one(pairs[0][0], 8)
    kinds = torch.cat([item[:, 4:] for item in found.sets])
    assert ((kinds == 0) | (kinds == 1)).all()
    assert (kinds.sum(dim=1) == 1).all()


# -- boxes as inputs ---------------------------------------------------------------------------------------


def test_boxes_as_inputs_are_scaled_as_those_to_predict() -> None:
    """Where one encoder is shared by inputs and sets, the code of a set is the padded set itself."""
    chain = LangevinSettings(steps=1, stochastic_steps=1)
    method = ContrastiveSettings(
        encoder=ScalingEncoderSettings(),
        energy=SetEncoderEnergySettings(hidden=8, latent=6, shared=True),
        training_sampler=chain,
        sampler=chain,
    )
    presence = torch.ones(2, 1)
    sets = [boxes for _, boxes in images_of_boxes(9) if len(boxes) == 2]
    pairs = [(torch.cat([boxes, presence], dim=1), boxes) for boxes in sets]
    predictor = fit(method, pairs, description=replace(BOXES, input_kind="set"))
    x = torch.stack([item for item, _ in pairs])
    padded = predictor.sets_to_tensor(SetBatch.from_ragged(sets, predictor.shape.max_size))
    torch.testing.assert_close(predictor.method.encoder(x), padded)


def test_the_best_of_aligned_boxes_is_a_sample_in_the_order_of_the_input() -> None:
    """Pooled boxes are ordered by their confidence, which is no order of the input."""
    boxes = torch.tensor([[0.6, 0.1, 0.7, 0.2], [0.1, 0.1, 0.2, 0.2]])
    energies = torch.zeros(3)
    aligned = Prediction([boxes, boxes + 0.01, boxes + 0.3], energies, aligned=True)
    found = best_prediction(aligned, BOXES, MOST)
    torch.testing.assert_close(found.sets, [boxes + 0.01])
    pooled = best_prediction(replace(aligned, aligned=False), BOXES, MOST)
    assert pooled.presence is not None
