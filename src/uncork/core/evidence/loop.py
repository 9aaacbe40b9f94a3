"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from typing import Literal

from uncork.core.base.record import Record


class Growth(Record, frozen=True, kw_only=True):
    """A variable that grows with every step, and the steps with it.

    Attributes:
        name: Of the attribute that holds it.
        bytes_per_step: By which it grows.
        first_s: Of the first step.
        added_s: By which each step is longer than the one before.
        at: Where it is changed, if that is in one place.
    """

    name: str
    bytes_per_step: float
    first_s: float
    added_s: float
    at: str | None = None


class Unrolled(Record, frozen=True, kw_only=True):
    """A loop of Python's, or of a layer, that is written out round for round in the traced step.

    Attributes:
        at: The ``for`` statement, or where the layer is made.
        ops: In the graph of the forward pass, as many as the loop became.
        share: Part of all ops there, 0 to 1.
        rounds: As often as it reads a variable; 0 where it reads none.
        first_s: Seconds that the first step takes for being traced, or for being the first.
    """

    at: str
    ops: int
    share: float
    rounds: int
    first_s: float

    @property
    def seconds(self) -> float:
        """Of the first step, what the loop takes if all ops take the same."""
        return self.share * self.first_s


class Remade(Record, frozen=True, kw_only=True):
    """A compiled function that a script makes anew for each epoch.

    Attributes:
        first_s: Seconds of its first call beyond those of a later one.
        at: Where it is defined.
    """

    first_s: float
    at: str | None = None


class Waiting(Record, frozen=True, kw_only=True):
    """Python waits for a value that the step computes.

    Attributes:
        share: Part of a step in which it does, 0 to 1.
        at: The user's line that reads it.
    """

    share: float
    at: str | None = None


class Answering(Record, frozen=True, kw_only=True):
    """A loop of the user's own calls Keras's ``evaluate`` or ``predict``.

    Attributes:
        share: Part of a step that passes in them, 0 to 1.
        calls: For each step.
        spared: Part of that which is the making of what they read through, 0 to 1.
        tracing: Part of a step in which they have TensorFlow trace functions.
        at: The user's line that spends most in them.
    """

    share: float
    calls: float
    spared: float = 0.0
    tracing: float = 0.0
    at: str | None = None


class StartLine(Record, frozen=True, kw_only=True):
    """A line of the user's that takes long before the training begins.

    Attributes:
        at: Which one.
        seconds: Until the training began.
        in_framework: Most of them pass in TensorFlow or Keras, which the line calls.
    """

    at: str
    seconds: float
    in_framework: bool = False


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
        grows: It gives a name what the name held before and more.
    """

    at: str
    work: LoopWork
    seconds: float
    share: float
    function_at: str | None = None
    grows: bool = False

    @property
    def is_beside(self) -> bool:
        """It belongs neither to the step nor to its input, as far as one can see."""
        return self.grows or self.work in ("metrics", "evaluation", "function")
