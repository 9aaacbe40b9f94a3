"""What was seen of a training beside its speed: one record for each kind of thing."""

from __future__ import annotations

from uncork.core.base.record import Record


class KerasDefect(Record, frozen=True, kw_only=True):
    """Something that Keras gets wrong in this training, without a word.

    Attributes:
        name: Of the defect.
        evidence: A sentence.
        remedy: What to type.
        at: Where it is called for, if that is in one place.
        has_double_backward: It makes every step run what it differentiates twice.
    """

    name: str
    evidence: str
    remedy: str
    at: str | None = None
    has_double_backward: bool = False


class ReshuffledSplit(Record, frozen=True, kw_only=True):
    """Training and validation data are parts of one dataset, by place, whose order changes.

    Attributes:
        shuffle_at: What puts it in another order in each pass, where that is known.
        split_methods: The methods that part it: that of the training, that of the validation.
    """

    shuffle_at: str | None
    split_methods: tuple[str, str]
