from __future__ import annotations

import keras
import pytest

from uncork.compat.keras3.distillation import runs_student_for_features
from uncork.core.base.errors import MissingPrivateApi

distillation = pytest.importorskip("keras.distillation")


def network(name):
    layers = [keras.Input((2,)), keras.layers.Dense(2, name="hidden"), keras.layers.Dense(2)]
    return keras.Sequential(layers, name=name)


def distiller(kind, of_features):
    loss = (
        distillation.FeatureDistillation("mse", "hidden", "hidden")
        if of_features
        else distillation.LogitsDistillation()
    )
    teacher = network("teacher")
    teacher.compile("sgd", "mse")
    return kind(teacher, network("student"), distillation_losses=loss)


class Own(distillation.Distiller):
    def _extract_all_student_features(self, x, y_pred):
        return {}


@pytest.mark.parametrize(
    ("kind", "of_features", "runs"),
    [
        (distillation.Distiller, True, True),
        (distillation.Distiller, False, False),
        (Own, True, False),
    ],
)
def test_features_cost_a_second_run_unless_a_subclass_saves_it(kind, of_features, runs):
    model = distiller(kind, of_features)
    assert runs_student_for_features(model, distillation.Distiller) is runs


def test_a_missing_method_is_reported(monkeypatch):
    model = distiller(distillation.Distiller, True)
    monkeypatch.delattr(distillation.Distiller, "_extract_all_student_features")
    with pytest.raises(MissingPrivateApi, match=r"_extract_all_student_features'"):
        runs_student_for_features(model, distillation.Distiller)
