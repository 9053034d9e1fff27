"""JupyterHub for a class: the lines that concern this course, and those that keep it from harm.

    cd /srv/heads && .venv/bin/jupyterhub -f tools/classroom/jupyterhub_config.py

It sets no authenticator: JupyterHub's own asks PAM, that is the accounts of the machine. For another one, and for
TLS, write a file of your own that begins with `load_subconfig("tools/classroom/jupyterhub_config.py")`. Why the
numbers are what they are stands in notebooks/TEACHING.md, with what was measured.
"""

import sys
from pathlib import Path

COURSE = Path(__file__).resolve().parents[2]
THREADS = "1"  # of torch, and processes of the sweep: forty learners who take all cores each take turns at each core

c = get_config()  # JupyterHub puts it there

# The widgets' JavaScript belongs to the environment of the single-user server: it must be that of the lessons.
c.Spawner.cmd = [str(Path(sys.executable).with_name("jupyterhub-singleuser"))]
c.Spawner.default_url = "/lab/tree/my/00_start_here.ipynb"
c.Spawner.http_timeout = c.Spawner.start_timeout = 120  # forty who start at once wait for each other
c.Spawner.environment = {
    "OMP_NUM_THREADS": THREADS,
    "MKL_NUM_THREADS": THREADS,
    "OPENBLAS_NUM_THREADS": THREADS,
    "LOKY_MAX_CPU_COUNT": THREADS,
}
# Only spawners that can limit heed this: systemd, Docker and Kubernetes; the local one warns and goes on.
c.Spawner.mem_limit = "1.5G"
# Each open lesson keeps a kernel. One in which nothing has run for an hour is ended, also where its page is still open:
# the notebook stays, its variables go. Less than an hour would take them from who thinks, or listens to you. A server
# without kernels goes after another 40 minutes.
# ipc: kernels talk through files of their learner instead of ports, on which any account of the machine could listen in
# and for which forty servers that start at once compete. The path of a home may then have 28 characters at most; where
# it has more, kernels do not start ("ipc path is longer than 107 characters"): leave this line out.
c.Spawner.args = [
    "--KernelManager.transport=ipc",
    "--MappingKernelManager.cull_idle_timeout=3600",
    "--MappingKernelManager.cull_interval=300",
    "--MappingKernelManager.cull_connected=True",
    "--ServerApp.shutdown_no_activity_timeout=2400",
]
c.JupyterHub.active_server_limit = 60
c.JupyterHub.concurrent_spawn_limit = 10  # the eleventh is asked to wait, instead of all timing out together
# Only this machine reaches it, until a proxy with TLS stands before it; nobody is let in who is not named.
c.JupyterHub.bind_url = "http://127.0.0.1:8000"
c.JupyterHub.hub_ip = "127.0.0.1"
c.Authenticator.allow_all = False
c.Authenticator.admin_users = set()
c.JupyterHub.admin_access = False
c.JupyterHub.shutdown_on_logout = True
