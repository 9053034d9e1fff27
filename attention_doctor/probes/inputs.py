"""Each input has a part in the output: queries, keys and values that differ, and a context where one is taken.

A layer that is only ever called with the same tensor three times hides which projection gets which. Where keys and
values are both left alone, the layer may be made for self-attention with the signature of another one; then nothing is
said.
"""

import copy
import inspect
import io
import re
import warnings
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace

import torch
from torch import Tensor, nn

from attention_doctor.adapt import INPUTS, pick, turned, turned_back
from attention_doctor.calls.names import signature_of
from attention_doctor.calls.pieces import Arguments, Pieces, give_mask
from attention_doctor.patient import Crash, Patient
from attention_doctor.report import Report
from attention_doctor.setting import Setting

ROLES = ("queries", "keys", "values")
ROLE = (  # by name; some layers take the keys first
    ("queries", re.compile(r"^(x_?|inputs?_?)?(q|query|queries|query_states|q_in)$", re.IGNORECASE)),
    ("keys", re.compile(r"^(x_?|inputs?_?)?(k|keys?|key_states|k_in)$", re.IGNORECASE)),
    ("values", re.compile(r"^(x_?|inputs?_?)?(v|values?|value_states|v_in)$", re.IGNORECASE)),
)
CONTEXT = re.compile(
    r"^(context|encoder_hidden_states|encoder_outputs?|key_value_states|memory|x_kv|kv_input|kv_states)$"
)
ADDED = re.compile(r"^(query_|key_|q_|k_)?(pos|pos_emb\w*|pos_embed\w*|position_emb\w*|positional_\w+)$")
ONE_KIND = re.compile(r"self_att|encoder_decoder|cross|is_self|context|memory")  # a switch for what it attends to


def takes_each_input(patient: Patient, setting: Setting, report: Report) -> None:
    """Change queries, keys, values or a context alone: each has to move the output."""
    attend = patient.attend
    if not report.ok or attend.axes not in ("B T d", "T B d") or attend.lengths:
        return
    call = _Call(patient)
    if len(call.roles) == 1:
        _context(call, setting, report)
        return
    keys, failed = setting.T + 2, None
    outcome = call.moved(setting.T, keys)
    if isinstance(outcome, Exception):
        keys, failed = setting.T, outcome
        outcome = call.moved(setting.T, keys)
    if isinstance(outcome, Exception):
        report.skip("inputs that differ", f"the layer raised {_said(outcome)}")
        return
    _judge(dict(zip(call.roles, outcome, strict=True)), call, keys, setting, report)
    if failed is None or not report.ok or not all(outcome):
        return
    # What a layer refuses in its own words is no accident.
    if isinstance(failed, RuntimeError) and _may_be_of_any_length(call, setting):
        _find_crash(failed, setting, report)
    else:
        report.skip("another number of keys than queries", f"the layer raised {_said(failed)}")


def leaves_tokens_alone(patient: Patient, setting: Setting, report: Report) -> None:
    """Hand over what is added to the tokens, such as positions: neither they nor the tokens may come back changed."""
    signature = signature_of(patient.attend.target)
    names = [] if signature is None else [p.name for p in signature.parameters.values() if ADDED.search(p.name)]
    for name in [n for n in names if signature.parameters[n].default is None and n not in patient.attend.also]:
        x = patient.tokens(setting.batch, setting.T, 0.5)
        added = turned(patient.noise(setting.batch, setting.T, 81), patient.attend.axes).to(
            patient.device, patient.dtype
        )
        before = added.clone()
        told = copy.copy(patient)
        told.attend, told.written = replace(patient.attend, also={**patient.attend.also, name: added}), {}
        try:
            told(x)
        except Crash:
            continue  # it is of another shape or kind
        if not torch.equal(added, before):
            told.written[name] = "it came back with other values"
        patient.written |= {what: f"{how}, with {name}=" for what, how in told.written.items()}


def _judge(moved: dict[str, bool], call: "_Call", keys: int, setting: Setting, report: Report) -> None:
    still = [name for name, moves in moved.items() if not moves]
    if not still:
        return
    (name, *more) = still
    tokens = f"{setting.T} queries and {keys} keys"
    if more or _switch(call.patient.module):
        report.skip("inputs that differ", f"{' and '.join(still)} alone move nothing: is it made for self-attention?")
    elif name == "queries" and (setting.places or not call.rows_differ(setting.T, keys)):
        report.skip("inputs that differ", "queries alone move nothing: does it learn its queries?")
    elif name in ("keys", "context") and not call.mixes_queries(setting.T, keys):
        report.skip("inputs that differ", f"{name} alone move nothing: are all scores alike, or is a gate closed?")
    else:
        others = " and ".join(other for other in moved if other != name)
        report.find(
            "input-ignored",
            f"{tokens}: other {name} alone leave every output as it was, other {others} alone do not.",
        )


def _context(call: "_Call", setting: Setting, report: Report) -> None:
    """Hand over an optional context."""
    signature = signature_of(call.patient.attend.target)
    optional = [] if signature is None else [p.name for p in signature.parameters.values() if p.default is None]
    for name in optional:
        if not CONTEXT.search(name) or name in call.patient.attend.also:
            continue
        moved = call.moved(setting.T, setting.T + 2, name)
        if isinstance(moved, Exception):
            report.skip(f"inputs that differ, {name}", f"the layer raised {_said(moved)}")
        elif moved[1] or not moved[0] or _switch(call.patient.module):
            continue
        elif call.mixes_queries(setting.T, setting.T + 2, name):  # otherwise a gate may be closed
            report.find(
                "input-ignored",
                f"{setting.T} tokens and {setting.T + 2} of {name}: other {name} alone leave every output as it was.",
            )


def _switch(module: nn.Module | None) -> bool:
    """Whether an attribute says that it attends to one thing only, whatever it is handed."""
    owners = [] if module is None else [module, *module.children()]
    return any(isinstance(v, bool) and ONE_KIND.search(name) for owner in owners for name, v in vars(owner).items())


def _may_be_of_any_length(call: "_Call", setting: Setting) -> bool:
    """Whether nothing in the layer ties the number of keys to that of the queries: no places, no causal mask."""
    attend, places = call.patient.attend, _places(call.patient)
    separate = len(places) > 2 and all(p.default is p.empty for p in places[:3]) and call.named
    fixed = setting.places or setting.sight != "full" or attend.also or attend.mask_always or call.patient.needs_mask
    return attend.convention == "qkv" and separate and not fixed and call.patient.module is not None


def _places(patient: Patient) -> list[inspect.Parameter]:
    signature = signature_of(patient.attend.target)
    return [] if signature is None else list(signature.parameters.values())


def _find_crash(error: Exception, setting: Setting, report: Report) -> None:
    T = setting.T
    report.find(
        "crash",
        f"{T} queries and {T + 2} keys and values: {_said(error)}; with {T} of each it runs. Queries and keys may be "
        "different in number.",
    )


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {(str(error).splitlines() or [''])[0][:200]}"


class _Call:
    """Calls a layer with inputs that differ.

    `roles` says what each of its inputs is, in their order; `named` whether their names say so.
    """

    def __init__(self, patient: Patient):
        self.patient = patient
        count = INPUTS[patient.attend.convention]
        by_name = [next((role for role, names in ROLE if names.search(p.name)), "") for p in _places(patient)[:count]]
        self.named = count == 3 and sorted(by_name) == sorted(ROLES)
        swapped = count == 2 and len(by_name) == 2 and by_name[1] == "queries" and by_name[0] != "queries"
        pair = ("context", "queries") if swapped else ("queries", "context")
        self.roles = tuple(by_name) if self.named else ROLES if count == 3 else pair[:count]

    def inputs(self, queries: int, keys: int, roles: tuple[str, ...]) -> list[Tensor]:
        return [self.patient.noise(2, queries if r == "queries" else keys, 50 + i) for i, r in enumerate(roles)]

    def moved(self, queries: int, keys: int, context: str = "") -> list[bool] | Exception:
        """Return for each input whether another one in its place moves the output, or what the layer raised."""
        inputs = self.inputs(queries, keys, ("queries", "context") if context else self.roles)
        try:
            before = self.output(inputs, context)
            changed = []
            for i, old in enumerate(inputs):
                new = [*inputs[:i], old.roll(1, -1) + 0.5 * old, *inputs[i + 1 :]]
                difference = (self.output(new, context) - before).abs().max()
                changed.append(not float(difference) <= self.patient.rounding(before))
        except Exception as error:
            return error
        return changed

    def rows_differ(self, queries: int, keys: int) -> bool:
        """Whether the outputs of different queries differ."""
        out = self.output(self.inputs(queries, keys, self.roles), "")
        return self.patient.differ(out[:, 1:], out[:, :1].expand_as(out[:, 1:]))

    def mixes_queries(self, queries: int, keys: int, context: str = "") -> bool:
        """Whether a query moves the outputs of others: then it stands where a key should."""
        roles = ("queries", "context") if context else self.roles
        inputs = self.inputs(queries, keys, roles)
        before = self.output(inputs, context)
        changed = [t.clone() for t in inputs]
        at = roles.index("queries")
        changed[at][:, 0] = changed[at][:, 0].roll(1, -1)
        after = self.output(changed, context)
        return self.patient.differ(after[:, 1:], before[:, 1:])

    def output(self, inputs: list[Tensor], context: str) -> Tensor:
        attend, patient = self.patient.attend, self.patient
        tensors = [t.to(patient.device, patient.dtype) for t in inputs]
        args = [turned(t, attend.axes) for t in (tensors[:1] if context else tensors)]
        at = 0 if context else self.roles.index("queries")
        x, other = tensors[at], tensors[at - 1]
        kwargs = attend.further(x) | ({context: turned(other, attend.axes)} if context else {})
        always = attend.mask is not None and (attend.mask_always or patient.needs_mask)
        give_mask(attend, self._open_mask(x, other) if always else None, args, kwargs)
        if attend.convention == "torch":
            kwargs["need_weights"] = False
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()), warnings.catch_warnings(), torch.no_grad():
            warnings.simplefilter("ignore")
            out = turned_back(pick(attend.target(*args, **kwargs), attend.output), attend.axes)
        if out.ndim != 3 or tuple(out.shape[:2]) != tuple(x.shape[:2]):
            raise ValueError(f"{tuple(out.shape)} came out of {tuple(x.shape)}")
        return out.detach().to("cpu", torch.float32 if out.dtype.itemsize < 4 else out.dtype)

    def _open_mask(self, x: Tensor, keys: Tensor) -> Tensor:
        return Pieces(replace(self.patient.attend, also={}), Arguments(), x).open_mask(x.shape[1], keys.shape[1])
