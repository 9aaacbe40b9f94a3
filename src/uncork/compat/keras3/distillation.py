"""How ``keras.distillation.Distiller`` computes the features of its student.

Borrowed: ``Distiller._student_feature_extractor`` and ``_extract_all_student_features``.
Why: the public API does not say that features cost a second run of the student in each step.
Works with: Keras 3.15.1; 3.7.0 has no ``keras.distillation``.
Where a name is missing: ``MissingPrivateApi``, raised by the call; a ``Distiller`` without an
    extractor runs its student once.
"""

from __future__ import annotations

from typing import Any, Final

from uncork.compat.borrow import borrow_attribute

_EXTRACT: Final = "_extract_all_student_features"


def runs_student_for_features(model: Any, distiller: Any) -> bool:
    """Whether a model runs its student once more for features, by the method of Keras.

    Args:
        model: A ``Distiller``, or of a subclass.
        distiller: Keras's class.
    """
    if getattr(model, "_student_feature_extractor", None) is None:
        return False
    return borrow_attribute(type(model), _EXTRACT) is borrow_attribute(distiller, _EXTRACT)
