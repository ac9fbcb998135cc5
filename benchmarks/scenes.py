"""How many CLEVR-like images a second are drawn and rendered.

python benchmarks/scenes.py --device cuda --batch 256
"""

import argparse
import statistics
from time import perf_counter

import torch

from desp.data.clevr_render import generate
from desp.randomness import make_generator
from desp.training.device import default_device


def seconds(batch: int, generator: torch.Generator) -> float:
    """The time that one batch takes."""
    start = perf_counter()
    _, rendering = generate(batch, generator)
    rendering.images[0, 0, 0, 0].item()  # waits for the device
    return perf_counter() - start


def main() -> None:
    """Measure as the command line asks, and print images a second."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto", help="where to run")
    parser.add_argument("--batch", type=int, default=32, help="images at once")
    parser.add_argument("--repeats", type=int, default=5, help="warm runs whose median is shown")
    parser.add_argument("--threads", type=int, help="threads of the CPU; torch's choice if left out")
    given = parser.parse_args()
    if given.threads:
        torch.set_num_threads(given.threads)
    device = default_device(given.device)
    generator = make_generator(0, "bench", device=device)
    seconds(given.batch, generator)
    median = statistics.median(seconds(given.batch, generator) for _ in range(given.repeats))
    print(f"{device}, {torch.get_num_threads()} threads: {given.batch / median:.1f} images/s, batch {given.batch}")
    if device.type == "cuda":
        print(f"peak memory: {torch.cuda.max_memory_allocated(device) / 2**30:.2f} GiB")


if __name__ == "__main__":
    main()
