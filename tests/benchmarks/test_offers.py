"""The offers benchmarks run, and all their methods return the same offers."""

from cli.local.postgres import Server
from counterfoil.offers.compute import Pool
from tests.benchmarks import offers, offers_day
from tests.offers.profile_generator import DAY, generate_profiles


def test_all_methods_compute_the_same_offers(postgres: Server):
    found = offers.compare_methods(Pool(generate_profiles(3000, cities=2), DAY), postgres, 20)

    assert found.users == 20
    assert found.different == 0
    assert min(found.computed, found.ours, found.python, found.sql) > 0


def test_processes_compute_the_offers_of_all_users():
    found = offers.measure_speed(generate_profiles(1200), processes=2)

    assert found.users == 1200
    assert 0 < found.candidates < 1000
    assert min(found.seconds, found.with_json, *found.processor) > 0
    at_rest, with_pool, at_most = found.megabytes
    assert 0 < at_rest <= with_pool <= at_most


def test_offers_limited_to_neighbors_are_nearly_optimal():
    lost = offers.measure_quality(generate_profiles(6000, cities=2), users=50)

    assert 0.97 < lost.score < 1
    assert 0.5 < lost.same < 1


def test_worker_processes_complete_a_day_of_offers(postgres: Server):
    day = offers_day.run_day(postgres, 300, 2)

    assert day.people == 300
    assert day.offers > 0
    assert min(day.pinned, day.served, day.storing, day.megabytes) > 0
