"""The day of a mixed cluster, on worlds that are counted by hand."""

from xml.etree import ElementTree

from tests.benchmarks.ai_day import DAY, RULES, STEP, Job, Simulation, draw, generated, summary
from tests.benchmarks.day_picture import picture

BURSAR, KOORDINATOR, KUBE = RULES
CARD, HALF = (1_000, 1_024, 1, 1_000), (1_000, 1_024, 1, 500)


def day(rules, *jobs, nodes=1):
    found = Simulation(rules, jobs, nodes)
    found.run()
    return found


def test_a_gang_waits_until_all_of_it_fits_and_then_runs():
    long, gang = Job("notebook", 0, 3_600, (CARD,)), Job("training", 10, 600, (CARD,) * 8)
    for rules in (BURSAR, KOORDINATOR):
        found = day(rules, long, gang)

        assert found.waits == {0: 0, 1: 3_600 - 10}
        assert found.samples[1].held == found.samples[1].working == 1_000


def test_without_gangs_two_jobs_hold_what_the_other_one_lacks():
    gangs = [Job("training", 0, 600, (CARD,) * 6), Job("training", 0, 600, (CARD,) * 6)]
    stuck = day(KUBE, *(Job("training", 0, 600, (CARD,) * 9) for _ in gangs))

    assert day(BURSAR, *gangs).waits == {0: 0, 1: 600}
    assert stuck.waits == {0: DAY, 1: DAY}
    assert stuck.samples[-1].held == 8_000 and stuck.samples[-1].working == 0


def test_shares_take_parts_of_cards_where_somebody_shares_them():
    jobs = [Job("inference", 0, DAY, (HALF,)) for _ in range(3)]
    packed, whole = day(BURSAR, *jobs).samples[0], day(KUBE, *jobs).samples[0]

    assert (packed.held, packed.split) == (1_500, 500)
    assert (whole.held, whole.working) == (3_000, 1_500)


def test_a_day_without_traces_is_the_same_each_time():
    jobs = generated()

    assert jobs == generated() and {one.kind for one in jobs} == {
        "training",
        "notebook",
        "inference",
    }
    assert all(0 <= one.at < DAY and one.seconds >= STEP // 2 for one in jobs)


def test_waits_and_begun_cards_are_drawn_beside(tmp_path):
    """Three halves begin two cards; a gang of nine cards waits all day."""
    jobs = [Job("inference", 0, DAY, (HALF,)) for _ in range(3)]
    found = summary(BURSAR, [*jobs, Job("training", 0, DAY, (CARD,) * 9)], 1)
    draw(tmp_path / "day.svg", [found])
    texts = {
        path.stem: [one.text for one in ElementTree.fromstring(path.read_text()).iter() if one.text]
        for path in tmp_path.iterdir()
    }

    assert found["waiting_over_time"][5] == 9 and found["split_over_time"][5] == 500 / 8_000
    assert texts.keys() == {"day", "day-waiting", "day-split"}
    assert "Bursar: 9 on the mean" in texts["day-waiting"] and "10" in texts["day-waiting"]
    assert "Bursar: 6.2% on the mean" in texts["day-split"]


def test_the_picture_names_each_set_of_rules_with_its_mean():
    found = summary(BURSAR, [Job("training", 0, DAY, (CARD,) * 4)], 1)
    texts = [one.text for one in ElementTree.fromstring(picture({"x": found["working_over_time"]})).iter() if one.text]  # fmt: skip

    assert found["working"] == 0.5 and "x: 50.0% on the mean" in texts
