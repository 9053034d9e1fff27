"""Random numbers that an experiment draws without a trace in the random state of its surroundings."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int, device: torch.device | str = "cpu") -> Iterator[None]:
    """Draw from `seed` what is drawn inside the `with`; afterwards the global random state is as it was before.

    Args:
        seed: a whole number, 0 or more.
        device: the state of this device is kept as well as that of the CPU.

    Raises:
        ValueError: `seed` is no whole number of 0 or more.

    No notebook uses it by itself: what is drawn by a `seed` in notebook 07 and later is drawn inside it.

    Examples:
        >>> import torch
        >>> from mhalib.experiments import seeded
        >>> with seeded(0):
        ...     first = torch.rand(3)
        ...
        >>> with seeded(0):
        ...     second = torch.rand(3)
        ...
        >>> bool((first == second).all())
        True
    """
    if not isinstance(seed, int) or isinstance(seed, bool) or seed < 0:
        raise ValueError(f"seed must be a whole number of 0 or more, got {seed!r}; give one such as 0")
    generators = [torch.default_generator]
    device = torch.device(device)
    if device.type == "cuda":
        torch.cuda.init()  # before that there are no generators
        index = torch.cuda.current_device() if device.index is None else device.index
        generators.append(torch.cuda.default_generators[index])
    elif device.type == "mps":
        generators.append(torch.mps._get_default_mps_generator())
    states = [generator.get_state() for generator in generators]
    try:
        # Not torch.manual_seed, which would also seed every other device.
        for generator in generators:
            generator.manual_seed(seed)
        yield
    finally:
        for generator, state in zip(generators, states, strict=True):
            generator.set_state(state)
