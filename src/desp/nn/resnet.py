"""ResNet-34 (He et al. 2016) with torchvision's weight names, and the image encoder of DSPN on CLEVR."""

from pathlib import Path

import torch
import torch.nn.functional as F
from jaxtyping import Float
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor, nn

from desp.errors import DataError, SettingsError

CHANNELS = (64, 128, 256, 512)
BLOCKS = (3, 4, 6, 3)
SMALLEST_SIDE = 65
"""The trunk divides sides by 32, rounding up; what follows needs three positions or more along each."""


class _BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut, which is a 1 x 1 convolution where the shape changes.

    Args:
        before: channels in.
        after: channels out.
        stride: of the first convolution.
    """

    def __init__(self, before: int, after: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(before, after, 3, stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(after)
        self.conv2 = nn.Conv2d(after, after, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(after)
        self.downsample: nn.Module | None = None
        if stride != 1 or before != after:
            shortcut = nn.Conv2d(before, after, 1, stride, bias=False)
            self.downsample = nn.Sequential(shortcut, nn.BatchNorm2d(after))

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o p q"]:
        """The sum of both ways, and a ReLU."""
        values = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        shortcut = x if self.downsample is None else self.downsample(x)
        return F.relu(values + shortcut)


class ResNet34(nn.Module):
    """The convolutional trunk: ResNet-34 without its average pooling and classifier (`fc`).

    Names and shapes of weights are those of torchvision's ``resnet34``, and so are the initial weights:
    Kaiming-normal by fan-out, batch norms ones and zeros.

    Args:
        channels: of an image.
    """

    def __init__(self, channels: int = 3) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels, CHANNELS[0], 7, stride=2, padding=3, bias=False)
        self.bn1 = nn.BatchNorm2d(CHANNELS[0])
        self.layer1, self.layer2, self.layer3, self.layer4 = (
            _stage(CHANNELS[max(index - 1, 0)], CHANNELS[index], blocks, stride=1 if index == 0 else 2)
            for index, blocks in enumerate(BLOCKS)
        )
        for layer in self.modules():
            if isinstance(layer, nn.Conv2d):
                nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o p q"]:
        """Features of images, at a 32nd of their height and width, rounded up: (512, 4, 4) for 128 x 128."""
        values = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), kernel_size=3, stride=2, padding=1)
        if values.is_cuda:
            # All layers keep this layout, in which cuDNN's convolutions are faster. Not before the pooling: its
            # gradient may add in any order there, so that a resumed run would end elsewhere.
            values = values.contiguous(memory_format=torch.channels_last)
        return self.layer4(self.layer3(self.layer2(self.layer1(values))))


def _stage(before: int, after: int, blocks: int, stride: int) -> nn.Sequential:
    """Several blocks; the first changes the shape."""
    others = [_BasicBlock(after, after, stride=1) for _ in range(blocks - 1)]
    return nn.Sequential(_BasicBlock(before, after, stride), *others)


class ResNet34Encoder(nn.Module):
    """h(x) for images as the released code of DSPN has it on CLEVR: from 128 x 128 intensities to one vector.

    The trunk gives (512, 4, 4); a 3 x 3 convolution with stride 2 makes (512, 2, 2) of it; then follow a batch
    norm, without an activation after it, and a 2 x 2 convolution. Sides from 65 to 128 pixels give one position
    likewise; of larger images, codes are the mean over positions.

    Args:
        out: H, the length of the code.
        channels: of an image.
    """

    def __init__(self, out: int, channels: int = 3) -> None:
        super().__init__()
        self.trunk = ResNet34(channels)
        features = CHANNELS[-1]
        self.end = nn.Sequential(
            nn.Conv2d(features, features, 3, stride=2, padding=1),
            nn.BatchNorm2d(features),
            nn.Conv2d(features, out, 2),
        )

    def forward(self, x: Float[Tensor, "b c h w"]) -> Float[Tensor, "b o"]:
        """Encode images of intensities in [0, 1], which are not normalised further."""
        return self.end(self.trunk(x)).mean(dim=(2, 3))


def check_image(input_shape: tuple[int, ...]) -> None:
    """Check that the encoder can take images (C, H, W).

    Raises:
        SettingsError: they are too small.
    """
    if min(input_shape[1:]) < SMALLEST_SIDE:
        raise SettingsError(
            f"The encoder 'resnet34' needs images of at least {SMALLEST_SIDE} x {SMALLEST_SIDE} pixels, got "
            f"{input_shape[1]} x {input_shape[2]}. Enlarge them (128 x 128 is what it was published for), or use "
            "the encoder 'conv'."
        )


def load_trunk(trunk: ResNet34, path: Path) -> None:
    """Take the weights of a safetensors file with torchvision's names; those of the classifier are left out.

    Raises:
        SettingsError: there is no such file.
        DataError: it cannot be read, or its names or shapes are not those of ResNet-34.
    """
    if not path.is_file():
        raise SettingsError(f"encoder.weights: there is no file {path}. Leave it empty to draw initial weights.")
    try:
        tensors = load_file(path)
    except (SafetensorError, OSError) as error:
        raise DataError(f"{path} cannot be read as a safetensors file: {error}.") from error
    weights = {name: value for name, value in tensors.items() if not name.startswith("fc.")}
    _check_weights(trunk.state_dict(), weights, path)
    trunk.load_state_dict(weights)


def _check_weights(expected: dict[str, Tensor], found: dict[str, Tensor], path: Path) -> None:
    # Older files do not count batches, which only a batch norm without momentum needs.
    missing = [name for name in expected if name not in found and not name.endswith("num_batches_tracked")]
    unknown = [name for name in found if name not in expected]
    if missing or unknown:
        raise DataError(
            f"{path} does not hold the weights of torchvision's resnet34: {_listed(missing)} missing, "
            f"{_listed(unknown)} unknown. Names are those of resnet34().state_dict()."
        )
    for name, value in found.items():
        if value.shape != expected[name].shape:
            raise DataError(
                f"{path} does not fit ResNet-34 for these images: {name} must have shape "
                f"{tuple(expected[name].shape)}, got {tuple(value.shape)}."
            )


def _listed(names: list[str], most: int = 3) -> str:
    """How many names there are, and the first of them."""
    more = ", ..." if len(names) > most else ""
    return f"{len(names)} ({', '.join(names[:most])}{more})" if names else "none"
