"""A function that is traced again and again: ``retracing``."""

from __future__ import annotations

from collections.abc import Iterator

from uncork.core.base.machine import Machine
from uncork.core.documents.diagnosis import Finding, WorkloadDiagnosis
from uncork.rules.base.thresholds import MIN_FINDING_SPEEDUP, format_ms, input_share, speedup_bound


def find(diagnosis: WorkloadDiagnosis, machine: Machine) -> Iterator[Finding]:
    """At most one finding: after the first steps nothing should be left to trace.

    What is won is at least what tracing takes. In a loop that calls its own step it is what the
    step takes longer than on arguments that it knows. Keras's methods trace too, at their start.
    """
    del machine
    found = diagnosis.evaluation_calls
    of_steps = diagnosis.tracing_share - (found.tracing_share if found else 0.0)
    if (
        speedup_bound(1.0, 1.0 - of_steps) < MIN_FINDING_SPEEDUP
        or diagnosis.workload.is_fit_in_loop
    ):
        return
    share = max(diagnosis.retracing_share, _longer(diagnosis))
    yield Finding(
        cause="retracing",
        share=share,
        upper_bound=speedup_bound(1.0, 1.0 - share),
        at=diagnosis.workload.at,
        evidence=(
            f"{format_ms(diagnosis.tracing_share * diagnosis.step_s)} of a "
            f"{format_ms(diagnosis.step_s)} step go to tracing functions that TensorFlow has "
            "traced before, with other arguments; with the work that follows a trace, "
            f"{format_ms(share * diagnosis.step_s)} are lost"
        ),
        remedy=_remedy(
            () if diagnosis.workload.is_eager_step else diagnosis.workload.number_arguments
        ),
    )


def _remedy(numbers: tuple[str, ...]) -> str:
    """By what was seen to change from call to call, where that is known."""
    if numbers:
        first, *others = (f"{name}=tf.constant({name})" for name in numbers)
        return (
            f"{' and '.join([first, *others])} where the step is called: TensorFlow traces the "
            "step again for each new Python number"
        )
    return (
        "pass tensors instead of Python numbers; keep shapes equal, or declare unknown dimensions: "
        "@tf.function(reduce_retracing=True) or an input_signature"
    )


def _longer(diagnosis: WorkloadDiagnosis) -> float:
    """Part of the step that new arguments cost, where that is known."""
    own = [s.wall_s_per_element or 0.0 for s in diagnosis.stages if s.kind == "loop"]
    return input_share(diagnosis) - sum(own) / diagnosis.step_s if own else 0.0
