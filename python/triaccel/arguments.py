"""Arguments of :func:`triaccel.attach`, checked."""
from __future__ import annotations

import torch


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raises a ValueError that lists the choices."""
    if value not in choices:
        raise ValueError(f"{name} is {' or '.join(map(repr, choices))}, not {value!r}")


def ratio_of(value: float | str) -> float:
    """How many times smaller compressed activations are to be; 0: ``"auto"``."""
    if value == "auto":
        return 0.0
    if isinstance(value, str) or not 1 <= value <= 32:
        raise ValueError(f"activation_ratio is 'auto' or a number from 1 to 32, not {value!r}")
    return float(value)


def device_of(parameters: list[torch.Tensor]) -> torch.device:
    devices = sorted({str(parameter.device) for parameter in parameters})
    if len(devices) > 1:
        raise ValueError(f"the model's parameters are on several devices, {' and '.join(devices)}; move it to one")
    device = parameters[0].device
    if device.type == "cuda" and device.index not in (None, torch.cuda.current_device()):
        raise ValueError(f"the model is on {device}, but the current device is cuda:{torch.cuda.current_device()}; "
                         f"call torch.cuda.set_device({device.index}) first")
    return device
