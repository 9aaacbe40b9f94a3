"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.record import Record


class StateGrowth(Record, frozen=True, kw_only=True):
    """A variable that grows with every step, and the steps with it.

    Attributes:
        name: Of the attribute that holds it.
        bytes_per_step: By which it grows.
        first_step_s: Of the first step.
        added_s_per_step: By which each step is longer than the one before.
        at: Where it is changed, if that is in one place.
    """

    name: str
    bytes_per_step: float
    first_step_s: float
    added_s_per_step: float
    at: str | None = None


class UnrolledLoop(Record, frozen=True, kw_only=True):
    """A loop of Python's, or of a layer, that is written out round for round in the traced step.

    Attributes:
        at: The ``for`` statement, or where the layer is made.
        op_count: In the graph of the forward pass, as many as the loop became.
        op_share: Part of all ops there, 0 to 1.
        iterations: As often as it reads a variable; 0 where it reads none.
        first_step_s: Seconds that the first step takes for being traced, or for being the first.
    """

    at: str
    op_count: int
    op_share: float
    iterations: int
    first_step_s: float

    @property
    def tracing_s(self) -> float:
        """Of the first step, what the loop takes if all ops take the same."""
        return self.op_share * self.first_step_s


class RecreatedFunction(Record, frozen=True, kw_only=True):
    """A compiled function that a script makes anew for each epoch.

    Attributes:
        first_call_extra_s: Seconds of its first call beyond those of a later one.
        at: Where it is defined.
    """

    first_call_extra_s: float
    at: str | None = None


class HostSync(Record, frozen=True, kw_only=True):
    """Python waits for a value that the step computes.

    Attributes:
        share: Part of a step in which it does, 0 to 1.
        at: The user's line that reads it.
    """

    share: float
    at: str | None = None


class EvaluationCalls(Record, frozen=True, kw_only=True):
    """A loop of the user's own calls Keras's ``evaluate`` or ``predict``.

    Attributes:
        share: Part of a step that passes in them, 0 to 1.
        calls_per_step: For each step.
        setup_share: Part of that which is the making of what they read through, 0 to 1.
        tracing_share: Part of a step in which they have TensorFlow trace functions.
        at: The user's line that spends most in them.
    """

    share: float
    calls_per_step: float
    setup_share: float = 0.0
    tracing_share: float = 0.0
    at: str | None = None


StartupKind = Literal["line", "imports", "other lines"]


class StartupLine(Record, frozen=True, kw_only=True):
    """A line of the user's that takes long before the training begins.

    Attributes:
        at: Which one; of several together, the longest.
        seconds: Until the training began.
        is_in_framework: Most of them pass in TensorFlow or Keras, which the line calls.
        kind: One line; or all imports together, or all lines that are too short to be named.
    """

    at: str
    seconds: float
    is_in_framework: bool = False
    kind: StartupKind = "line"


LoopWork = Literal["metrics", "evaluation", "function", "graph", "plain"]


class LoopLine(Record, frozen=True, kw_only=True):
    """A line in the body of a training loop of the user's own.

    Attributes:
        at: Which one.
        work: What it calls first: Keras's metrics, an evaluation or prediction, a function of the
            user's whose value is dropped, a ``tf.function``, or none of these.
        seconds: Of one step on a resident batch, most likely; being watched slows Python down.
        share: Of that step, 0 to 1.
        function_at: Where the user's function begins that it spends most in.
        is_accumulating: It gives a name what the name held before and more.
    """

    at: str
    work: LoopWork
    seconds: float
    share: float
    function_at: str | None = None
    is_accumulating: bool = False

    @property
    def is_outside_step(self) -> bool:
        """It belongs neither to the step nor to its input, as far as one can see."""
        return self.is_accumulating or self.work in ("metrics", "evaluation", "function")
