"""Which worker takes which tests: whole files, those of a site or a JupyterLab together, lessons one by one."""

import os

import pytest

SITE = "tests/tools/test_site"  # so begin the files whose tests share one site, which is executed for them
# Those whose tests share one JupyterLab: another worker would start one of its own.
LAB = ("test_contract.py", "test_head_view_page.py", "test_kernel_page.py", "test_predictions_page.py")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config):
    """Return two workers more than cores, four at most: some of them wait, for a page, a kernel or a process."""
    return min(4, 2 + len(os.sched_getaffinity(0))) if hasattr(os, "sched_getaffinity") else None


def runs_a_lesson(nodeid: str) -> bool:
    return "::test_runs_offline_" in nodeid  # of tests/lessons, each for any free worker


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
    """Let a worker take whole files, as `--dist loadfile` does, but for those that belong together, and lessons."""
    if config.getvalue("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling

    class ByFileAndLesson(LoadFileScheduling):
        def _split_scope(self, nodeid):
            if runs_a_lesson(nodeid):
                return nodeid
            scope = super()._split_scope(nodeid)
            return "JupyterLab" if scope.endswith(LAB) else SITE if nodeid.startswith(SITE) else scope

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
