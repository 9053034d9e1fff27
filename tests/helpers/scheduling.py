"""Which worker takes which tests when several run: whole files, the site's together, the runs of lessons one by one."""

import os

import pytest

SITE = "tests/tools/test_site"  # so begin the files whose tests share one site, which is executed for them


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Return one worker more than cores, four at most: one of them waits, for a page, a kernel or a process."""
    return min(4, 1 + len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None


def runs_a_lesson(nodeid: str) -> bool:
    return "::test_runs_offline_" in nodeid  # of tests/lessons, each for any free worker


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let a worker take whole files, as `--dist loadfile` does, but for the site's and the runs of lessons."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFileAndLesson(LoadFileScheduling):
        def _split_scope(self, nodeid):
            if runs_a_lesson(nodeid):
                return nodeid
            return SITE if nodeid.startswith(SITE) else super()._split_scope(nodeid)

        def _reschedule(self, node):
            # A worker begins a test when it knows the next one, or that there is none. With a single test at hand the
            # one that takes the place of a crashed worker would wait for ever.
            for _ in range(2):
                super()._reschedule(node)

        def remove_node(self, node):
            """Take back what a worker leaves. The test that it died in has failed, and must not kill the next one."""
            units = self.assigned_work.pop(node)
            left = [(unit, test) for unit in units.values() for test, done in unit.items() if not done]
            if not left:
                return None
            unit, crashed = left[0]
            unit[crashed] = True
            self.workqueue.update((scope, unit) for scope, unit in units.items() if not all(unit.values()))
            for other in self.assigned_work:
                self._reschedule(other)
            return crashed

    return ByFileAndLesson(config, log)
