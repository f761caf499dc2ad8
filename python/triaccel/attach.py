"""The control loop around a training loop of your own.

>>> ta = triaccel.attach(model, optimizer, budget="6GB")
>>> for batch in loader:
...     loss = ta.step(batch, lambda b: criterion(model(b[0]), b[1]))
...     scheduler.step()
"""
from __future__ import annotations

import bisect
import contextlib
import functools
import itertools
import logging
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Union

import torch

from triaccel import _C, optim
from triaccel.activation_choice import ActivationChoice
from triaccel.arguments import check_choice, device_of, ratio_of
from triaccel.batch_parts import Batches, part_of, samples_in
from triaccel.captured import (CannotCapture, CapturedSteps, SavedTraining, applied_steps, can_capture, no_synchronization,
                               reason_of)
from triaccel.checkpointing import explain_reentrant
from triaccel.compiled import CompiledPrecision, difference_of, is_compiled
from triaccel.layers import Layers
from triaccel.user_optimizer import (OptimizerBefore, ParameterWatch, check_parameters, gradients_added, gradients_aside, rate_of,
                                     scaled_rates, unwrapped, warn_of_partial_updates)

Loss = Union[torch.Tensor, "tuple[torch.Tensor, torch.Tensor | float]"]
Closure = Callable[[Any], Loss]

_C.install_cpu_memory()  # counts what is allocated from here on

_log = logging.getLogger("triaccel")  # decisions, at level INFO
_attached: weakref.WeakKeyDictionary[torch.nn.Module, weakref.ref[Attached]] = weakref.WeakKeyDictionary()

_CURVATURE = {"fisher": "fisher_gram"}  # by the names of the command line
_KEPT = "activations"  # in state_dict(), where they were chosen


class Attached:
    """A model under control: made by :func:`attach`."""

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, session: Any,
                 make_session: Callable[..., Any], parameters: list[torch.Tensor],
                 callbacks: list[Callable[[dict[str, Any]], None]], elastic: bool, scales_layers: bool,
                 compiled: CompiledPrecision | None, rehearse: bool, captured: CapturedSteps | None,
                 choice: ActivationChoice | None) -> None:
        self._model = model
        self._optimizer = optimizer
        self._make_session = make_session
        self._session = session
        self._parameters = parameters
        self._watch = ParameterWatch(optimizer, parameters)
        self._callbacks = callbacks
        self._elastic = elastic
        self._scales_layers = scales_layers
        self._compiled = compiled  # None: the engine computes layers as planned
        self._rehearse = rehearse  # before the first step: compile, and compare with what was not compiled
        self._captured = captured  # None: every step is enqueued again
        self._choice = choice  # None: how activations are kept is decided
        self._kept: dict[str, Any] = {}  # what was chosen of them
        self._split = False  # a batch did not fit whole
        self._begun = False
        self._rate_scale = 1.0  # of all learning rates, for the batch size
        self._follow(session)
        self._loader_batch = 0  # samples of the first batch

    # -- one step ---------------------------------------------------------------------------------------------------

    def step(self, batch: Any, closure: Closure) -> torch.Tensor:
        """Trains one batch: forward, backward, update. Returns the mean loss, on the device, without waiting for it.

        ``closure(part)`` computes the loss of a part of the batch: a mean over its samples, or a pair ``(sum, count)``.
        It may run more than once. Gradients that were there before are dropped, and none are left. When memory is short
        the batch goes through in smaller parts; where not even the smallest fits, ``torch.OutOfMemoryError`` is raised and
        weights, buffers, optimizer and random generators are as before.
        """
        if self._optimizer is None:
            raise ValueError("attach() was given no optimizer; use backward(), or attach(model, optimizer)")
        parts = self._parts(batch)
        self._drop_gradients()
        if self._captured is not None and not self._rehearse:
            loss = self._captured_step(parts, closure) if self._captured.engine is not None else None
            return self._first_captured_step(parts, closure) if loss is None else loss
        return self._plain_step(parts, closure)

    def _plain_step(self, parts: list[tuple[Any, int]], closure: Closure) -> torch.Tensor:
        loss = self._first_run(parts, closure) if self._rehearse else self._run(parts, closure)
        try:
            self._update(self._open())
            self._finish(self._open())
        finally:
            self._drop_gradients()
        return loss

    def backward(self, batch: Any, closure: Closure) -> torch.Tensor:
        """Adds the gradients of a batch to ``.grad``, as ``loss.backward()`` does, and updates nothing.

        For loops that clip, log or step themselves, for several optimizers, and for adversarial training.
        """
        if self._captured is not None:
            raise ValueError("graphs='auto' captures whole steps: use step(), or attach the model without graphs")
        parts = self._parts(batch)
        with gradients_added(self._parameters):
            loss = self._first_run(parts, closure) if self._rehearse else self._run(parts, closure)
        self._finish(self._open())
        return loss

    def batches(self, loader: Iterable[Any]) -> Iterator[Batches]:
        """The batches of a loader, as many at a time as a step of ``batch="elastic"`` wants; give them to :meth:`step`."""
        iterator = iter(loader)
        while group := Batches(itertools.islice(iterator, self._batches_per_step())):
            yield group

    def _batches_per_step(self) -> int:
        return max(1, self._open().plan()["batch_size"] // self._loader_batch) if self._loader_batch else 1

    def _parts(self, batch: Any) -> list[tuple[Any, int]]:
        """Batches that no pass joins, with their numbers of samples."""
        self._watch.check()
        parts = [(part, samples_in(part)) for part in (batch if isinstance(batch, Batches) else [batch])]
        self._loader_batch = self._loader_batch or parts[0][1]
        return parts

    def _run(self, parts: list[tuple[Any, int]], closure: Closure) -> torch.Tensor:
        samples = [count for _, count in parts]
        if self._choice is not None and self._split:
            self._choose_activations(parts, closure)
        try:
            try:
                return self._open().backward(samples, self._loss_of(parts, closure))
            except (torch.OutOfMemoryError, MemoryError):
                if self._choice is None or not self._choose_activations(parts, closure):
                    raise
            return self._open().backward(samples, self._loss_of(parts, closure))
        except RuntimeError as error:
            explain_reentrant(error)
            raise

    def _choose_activations(self, parts: list[tuple[Any, int]], closure: Closure) -> bool:
        """Keeps activations so that steps in the budget are fastest from now on. False: nothing fits."""
        choice, self._choice = self._choice, None
        assert choice is not None
        # Counts and statistics go on; the plan is a new one.
        state = {name: value for name, value in self._open().state().items() if not name.startswith("plan/")}
        self._session = None
        found: dict[str, Any] = {}
        try:
            found = choice.best(self._make_session, parts[0][1], self._loss_of(parts[:1], closure))
        finally:
            self._drop_gradients()
            self._keep_activations(found)
            self._open().restore(state)
        return bool(found)

    def _keep_activations(self, how: dict[str, Any]) -> None:
        """As :meth:`ActivationChoice.best` has found; for a session without a state."""
        self._kept = how
        self._session = None
        self._make_session = functools.partial(self._make_session, **how)
        self._session = self._make_session()

    def _loss_of(self, parts: list[tuple[Any, int]], closure: Closure) -> Callable[[int, int], Loss]:
        starts = list(itertools.accumulate((samples for _, samples in parts), initial=0))

        def loss_of(first: int, count: int) -> Loss:
            number = bisect.bisect_right(starts, first) - 1
            batch, samples = parts[number]
            part = part_of(batch, first - starts[number], count, samples)
            if self._compiled is None:
                return closure(part)
            with self._compiled.passes():
                return closure(part)

        return loss_of

    def _captured_step(self, parts: list[tuple[Any, int]], closure: Closure) -> torch.Tensor | None:
        """None: parameters or optimizer states were replaced, and nothing was done."""
        captured, optimizer = self._captured, self._optimizer
        assert captured is not None and optimizer is not None
        with captured.on_stream():
            engine = optimizer.engine()
            if engine is not captured.engine:
                return None
            placed, key = captured.place(parts)
            loss = self._open().step([samples for _, samples in parts], self._loss_of(placed, closure), key)
            engine.counts().add_(1)
            self._finish(self._open())
        return loss

    def _renew_session(self, engine: Any = None, state: dict[str, Any] | None = None) -> None:
        """With the same state, for steps that ``engine`` ends, or as ever."""
        state = self._open().state() if state is None else state
        self._session = None  # lifts the budget
        self._session = self._make_session(optimizer=engine, applied_steps=applied_steps(engine))
        self._session.restore(state)
        if self._captured is not None:
            self._captured.engine = engine

    def _first_captured_step(self, parts: list[tuple[Any, int]], closure: Closure) -> torch.Tensor:
        """The same step as it is and captured, which must agree; then goes on captured, or not."""
        captured, optimizer = self._captured, self._optimizer
        assert captured is not None and optimizer is not None
        state = self._open().state()
        if captured.engine is not None:
            self._renew_session(None, state)
        optimizer.engine()  # makes the states
        before = SavedTraining(self._parameters, list(self._model.buffers()), optimizer)
        loss = self._plain_step(parts, closure)
        changes = before.changes()
        before.restore()
        if loss.is_cuda:
            torch.cuda.empty_cache()  # the captured step has memory of its own

        def watched(part: Any) -> Loss:
            with no_synchronization():
                return closure(part)

        try:
            with captured.on_stream():
                self._renew_session(optimizer.engine(), state)
            captured_loss = self._captured_step(parts, watched)
            assert captured_loss is not None
            difference = difference_of(loss, changes, captured_loss, before.changes(), "change of the weights")
            if not difference:
                return captured_loss
        except CannotCapture as error:
            difference = str(error)
        except Exception as error:  # whatever the closure raises
            difference = reason_of(error)
        warnings.warn(f"steps are not captured in CUDA graphs: {difference}", RuntimeWarning, stacklevel=3)
        self._captured = None
        before.restore()
        self._renew_session(None, state)
        self._drop_gradients()
        return self._plain_step(parts, closure)

    def _first_run(self, parts: list[tuple[Any, int]], closure: Closure) -> torch.Tensor:
        """The same step without torch.compile and with it, which must agree; then goes on with the better one."""
        self._rehearse = False
        assert self._compiled is not None
        session = self._open()
        loss = self._run(parts, closure)
        gradients = [None if p.grad is None else p.grad.cpu() for p in self._parameters]
        session.undo()
        self._compiled.compile()
        try:
            compiled_loss = self._run(parts, closure)
            difference = difference_of(loss, gradients, compiled_loss, [p.grad for p in self._parameters])
            if not difference:
                return compiled_loss
            session.undo()
        except (torch.OutOfMemoryError, MemoryError):
            raise
        except Exception as error:  # torch.compile raises whatever its backends do
            difference = str(error).strip().partition("\n")[0] or type(error).__name__
        warnings.warn(f"the model trains without torch.compile: {difference}", RuntimeWarning, stacklevel=4)
        self._compiled.give_up()
        return self._run(parts, closure)

    def _update(self, session: Any) -> None:
        optimizer = self._optimizer
        assert optimizer is not None
        before = OptimizerBefore(optimizer)
        try:
            with scaled_rates(optimizer, self._rate_scale):
                optimizer.step()
        except (torch.OutOfMemoryError, MemoryError):
            before.put_back()
            session.take_back()
            raise
        except BaseException:
            if before.put_back():
                session.undo()
            raise

    def _finish(self, session: Any) -> None:
        session.finish_step(rate_of(self._optimizer))
        self._tell(session)

    def _follow(self, session: Any) -> None:
        """Takes over what Python itself does of the plan."""
        plan = session.plan()
        if self._compiled is not None and not self._compiled.follow(plan["precision"]):
            session.hold_precision()
        if self._scales_layers:
            assert self._optimizer is not None
            self._optimizer.scale_layers(list(plan["learning_rate_scales"].values()))
        if self._elastic:
            self._rate_scale = plan["learning_rate_scale"]

    def _tell(self, session: Any) -> None:
        for notice in session.take_notices():
            warnings.warn(notice, RuntimeWarning, stacklevel=5)
        for event in session.take_events():
            _log.info(event)
        report = session.take_decided()
        self._count_skipped()
        if report is not None or not self._begun:  # the first step makes the first plan
            self._begun = True
            self._follow(session)
        plan = session.plan() if self._choice is not None else {}
        self._split = bool(plan) and plan["pass_size"] < plan["batch_size"]
        if report is not None and not self._split:
            self._choice = None
        if report is not None:
            for callback in self._callbacks:
                callback(report)

    def _count_skipped(self) -> None:
        """Steps whose gradients were not finite are no steps of the optimizer's."""
        skipped = self._open().take_skipped()
        if skipped and self._captured is not None and self._captured.engine is not None:
            self._captured.engine.counts().sub_(skipped)

    def _drop_gradients(self) -> None:
        for parameter in self._parameters:
            parameter.grad = None

    # -- what is going on -------------------------------------------------------------------------------------------

    @property
    def plan(self) -> dict[str, Any]:
        """What the next step does: ``batch_size``, ``pass_size``, ``activations``, ``learning_rate_scale`` and, for every
        layer, ``precision`` and ``learning_rate_scales``."""
        return self._open().plan()

    def report(self) -> dict[str, Any]:
        """What happened since the last report: loss, times, memory. Waits for the device."""
        report = self._open().report()
        self._count_skipped()
        return report

    @contextlib.contextmanager
    def precision(self) -> Iterator[None]:
        """Forward passes inside compute as the plan says, in an evaluation or in training passes of your own."""
        session = self._open()
        if self._compiled is not None:
            with self._compiled.passes():
                yield
            return
        session.enter_precision()
        try:
            yield
        finally:
            session.leave_precision()

    @contextlib.contextmanager
    def activations(self) -> Iterator[None]:
        """One forward pass inside keeps its activations as :meth:`profile` has planned; backward may run inside or later."""
        session = self._open()
        session.enter_activations()
        try:
            yield
        finally:
            session.leave_activations()

    def profile(self, batch: Any, closure: Closure) -> None:
        """Measures what a forward pass over a few samples saves for backward, and plans how to keep it, where that is due.

        For loops that use :meth:`activations`; :meth:`step` and :meth:`backward` do it themselves. Trains nothing.
        """
        samples = samples_in(batch)
        self._open().profile(samples, lambda first, count: closure(part_of(batch, first, count, samples)))

    def memory_plan(self, batch: Any, closure: Closure) -> dict[str, Any]:
        """What steps over such a batch would take in memory, from a few smaller ones, which are undone.

        ``plans`` has every way to split the batch, with ``bytes`` at the peak, ``pass_size``, ``samples_per_second`` and
        ``lossiness`` ("exact", or how far smaller passes change batch norm); ``least_bytes`` is the least of them. What the
        process holds now is counted, so call it after a first step has made the optimizer's states.
        """
        samples = samples_in(batch)
        with gradients_aside(self._parameters):
            found = self._open().memory_plans(samples, self._loss_of([(batch, samples)], closure))
        plans = [dict(zip(("bytes", "pass_size", "samples_per_second", "lossiness"), plan)) for plan in found]
        return {"batch": samples, "least_bytes": min(plan["bytes"] for plan in plans), "plans": plans}

    def end_step(self, loss: torch.Tensor, samples: int) -> None:
        """Ends a step whose passes you have run yourself, with its mean loss, before its gradients are dropped: the control
        loop measures them and decides."""
        session = self._open()
        session.finish_own_step(samples, loss)
        self._tell(session)

    def state_dict(self) -> dict[str, Any]:
        """The state of the control loop, for checkpoints; the model's and the optimizer's are their own."""
        # Empty bytes as empty text: torch.load refuses the call of bytes() that pickle writes for them.
        state = {name: (kind, shape, data or "") for name, (kind, shape, data) in self._open().state().items()}
        self._count_skipped()
        return {**state, **({_KEPT: self._kept} if self._kept else {})}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if self._choice is not None and _KEPT in state:
            self._choice = None
            self._keep_activations(state[_KEPT])
        self._open().restore({name: value for name, value in state.items() if name != _KEPT})
        self._loader_batch = self._open().first_samples()
        self._follow(self._open())

    def detach(self) -> None:
        """Ends the control and lifts the budget. Model and optimizer stay as they are."""
        if self._compiled is not None:
            self._compiled.end()
        if isinstance(self._optimizer, (optim.SGD, optim.AdamW)):
            self._optimizer.place(None)
        self._session = None
        _attached.pop(self._model, None)

    def _open(self) -> Any:
        if self._session is None:
            raise RuntimeError("this model is detached; call triaccel.attach() again")
        return self._session


def attach(model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None, *, budget: str | int | None = None,
           precision: str = "auto", activations: str = "auto", activation_ratio: float | str = 10.2, batch: str = "micro",
           curvature: str = "off", curvature_every: int = 200, compile: str = "off", graphs: str = "off",
           policy: str = "robust", control_interval: int = 10,
           callbacks: list[Callable[[dict[str, Any]], None]] | None = None) -> Attached:
    """Puts a model's training under control of Tri-Accel, without changing the model, the loader or the scheduler.

    budget: most memory for all tensors on the model's device, such as ``"6GB"``, ``"80%"`` or a number of bytes.
    precision: ``"auto"`` chooses BF16 or FP32 for every layer as it trains; ``"bf16"``, ``"fp32"``; ``"off"`` leaves all
    operators to torch.
    activations: how they are kept for backward: ``"raw"``; ``"lossless"``, smaller and with the same gradients;
    ``"offloaded"``, the large ones in host memory, which no budget counts, with the same gradients; ``"auto"``: ``"raw"``,
    but where a first batch does not fit into the budget the fastest of these three, measured; ``"compressed"`` to
    ``activation_ratio`` (FP32 bytes over bytes kept, or ``"auto"``: as high as gradient noise allows), which adds noise to
    the gradients.
    batch: ``"micro"`` trains each batch that ``step`` gets, in smaller parts where memory is short; ``"elastic"`` trains
    several batches of a loader at a time where that trains as well, with learning rates to match: see
    :meth:`Attached.batches`. It needs a budget and an optimizer.
    curvature: ``"fisher"`` or ``"hessian"`` measures it on a few samples every ``curvature_every`` steps and lowers the
    learning rates of layers that it is too large for; needs an optimizer of :mod:`triaccel.optim`.
    compile: ``"auto"`` compiles the model with ``torch.compile`` once the first step without it and with it agree. A model
    that is compiled already is trained as it is.
    graphs: ``"auto"`` captures whole steps in CUDA graphs and replays them, once the first step without and with a graph
    agree: the fastest way to train small models. It needs an optimizer of :mod:`triaccel.optim`. Python code of the model
    and of the closure does not run in a replay, steps with gradients that are not finite are skipped, and the line that
    keeps a step from being captured is named.
    policy: ``"robust"``, or ``"paper"`` for the rules of the Tri-Accel paper.
    control_interval: steps between two decisions.
    callbacks: each is called with a report every ``control_interval`` steps; :class:`triaccel.Progress` shows it as a line.
    """
    if not isinstance(model, torch.nn.Module):
        raise TypeError(f"attach() needs a torch.nn.Module, got {type(model).__name__}")
    if model in _attached and _attached[model]() is not None:
        raise ValueError("this model is attached already; call detach() on its handle first")
    optimizer = unwrapped(optimizer)
    check_choice("batch", batch, ("micro", "elastic"))
    check_choice("curvature", curvature, ("off", "fisher", "hessian"))
    check_choice("compile", compile, ("off", "auto"))
    check_choice("graphs", graphs, ("off", "auto"))
    if graphs == "auto" and not isinstance(optimizer, (optim.SGD, optim.AdamW)):
        raise ValueError("graphs='auto' needs triaccel.optim.SGD or AdamW, which can be captured with the step")
    elastic = batch == "elastic"
    if elastic and (budget is None or optimizer is None):
        raise ValueError("batch='elastic' needs a budget to grow in and an optimizer whose learning rates follow")
    found = Layers(model)
    parameters = [parameter for _, parameter, _ in found.parameters]
    measured, others = found.measured()
    device = device_of(parameters)
    if optimizer is not None:
        check_parameters(optimizer, parameters)
    scales_layers = curvature != "off"
    if scales_layers and not isinstance(optimizer, (optim.SGD, optim.AdamW)):
        raise ValueError("curvature needs triaccel.optim.SGD or AdamW: other optimizers have no learning rates by layer")
    traced = compile == "auto" or is_compiled(model)
    if scales_layers and traced:
        raise ValueError("curvature is measured operator by operator, which compiled models do not have")
    norms = any(isinstance(module, torch.nn.modules.batchnorm._NormBase) for module in model.modules())
    momentum = optimizer.param_groups[0].get("momentum", 0.0) if optimizer is not None else 0.0
    chooses = activations == "auto" and budget is not None and not elastic and not traced and graphs == "off"
    make_session = functools.partial(
        _C.Session, measured, others, list(model.buffers()), found.layers, "none" if budget is None else str(budget), precision,
        policy, control_interval, 2 if norms else 1, activations="raw" if activations == "auto" else activations, planned_pass=0,
        activation_ratio=ratio_of(activation_ratio), curvature=_CURVATURE.get(curvature, curvature),
        curvature_every=curvature_every, momentum=momentum, traced=traced, elastic=elastic, reports=bool(callbacks))
    session = make_session()
    if optimizer is not None and budget is not None:
        warn_of_partial_updates(optimizer, stacklevel=3)
    captures = graphs == "auto" and can_capture(device)
    if scales_layers or captures:
        places = {parameter: (name, layer) for name, parameter, layer in found.parameters}
        optimizer.place(places, len(found.layers))
    handle = Attached(model, optimizer, session, make_session, parameters, list(callbacks or []), elastic, scales_layers,
                      CompiledPrecision(model, [name for name, *_ in found.layers], device.type) if traced else None,
                      rehearse=compile == "auto" and not is_compiled(model),
                      captured=CapturedSteps(optimizer, device) if captures else None,
                      choice=ActivationChoice(device.type) if chooses else None)
    _attached[model] = weakref.ref(handle)
    return handle
