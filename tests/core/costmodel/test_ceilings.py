from uncork.core.costmodel.ceilings import disk_ceiling, input_ceilings
from uncork.core.evidence.stage import OpCost, Stage
from uncork.core.evidence.storage import ColdFiles


def stage(kind="map", cpu_s=0.001, parallelism=-1, ops=(), **fields):
    each = {"cpu_s_per_element": cpu_s, "wall_s_per_element": cpu_s, "elements_per_step": 10.0}
    return Stage(index=0, kind=kind, parallelism=parallelism, op_costs=ops, **(each | fields))


def op(name, share):
    return OpCost(op=name, share=share)


def test_a_parallel_map_has_no_serial_thread():
    assert input_ceilings([stage()], 10, cpus=2) == {}


def test_the_busiest_thread():
    serial = [stage(parallelism=1), stage("batch", 0.0005, 1)]
    assert input_ceilings(serial, 10, cpus=2) == {"serial": 10 / 0.015}


def test_decoding_and_reading_alone_are_shared_out_over_the_cores():
    photos = stage(ops=(op("DecodeJpeg", 0.5), op("ReadFile", 0.1), op("Mul", 0.4)))
    parsed = stage(ops=(op("ParseExampleV2", 0.5),))
    found = input_ceilings([photos, parsed], 10, cpus=2)
    assert found == {"decode": 10 / 0.005, "storage": 10 / 0.0005}


def test_readers_of_records_read():
    found = input_ceilings([stage("tfrecord", parallelism=None)], 10, cpus=4)
    assert found["storage"] == 10 / 0.0025


def test_a_stage_of_unknown_cost_counts_nothing():
    unknown = stage(
        ops=(op("DecodePng", 1.0),), cpu_s=None, wall_s_per_element=None, elements_per_step=None
    )
    assert input_ceilings([unknown], 10, cpus=2) == {}


FILES = ColdFiles(total_bytes=1_000, read_s_per_file=0.002, read_bytes_per_s=1e6)


def test_files_from_the_disk():
    names = stage("from_tensor_slices", file_bytes=1_000)
    assert disk_ceiling(FILES, [stage(), names], 10) == {"disk": 10 / 0.02}


def test_files_that_later_epochs_do_not_read_limit_none_of_them():
    cached = stage("from_tensor_slices", file_bytes=1_000, elements_per_step=0.0)
    others = stage("from_tensor_slices", file_bytes=50)
    assert disk_ceiling(FILES, [cached], 10) == disk_ceiling(FILES, [others], 10) == {}
    assert disk_ceiling(None, [stage()], 10) == {}
