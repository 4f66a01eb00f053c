# Every target makes its virtual environment and installs what it needs; the second time it is quick.
PYTHON ?= python3
VENV ?= .venv
RUN = $(VENV)/bin/python
PYTEST = $(RUN) -m pytest -n 2 --dist loadfile --no-loadscope-reorder -m "not slow"

.PHONY: install demo test test-quick test-slow test-browser fuzz lint typecheck coverage docs bench peers clean

install: $(VENV)/.installed

demo: $(VENV)/.installed
	$(VENV)/bin/tf-transformer demo

# In several runs, so that no test process collects the graphs of the whole suite: they stay below 2 GB. Slow files come
# first, so that both processes of a run end at about the same time.
test: $(VENV)/.installed-test
	$(PYTEST) $(or $(ARGS),tests/unit/d* tests/unit/[a-c]*)
	$(if $(ARGS),,$(PYTEST) tests/unit/test_c*.py tests/unit/tr* tests/unit/[e-s]* tests/unit/text tests/unit/test_[!c]*.py)
	$(if $(ARGS),,$(PYTEST) tests/parity)
	$(if $(ARGS),,$(PYTEST) tests/integration/test_do*.py tests/integration/test_export_[ct]*.py tests/integration/test_[fr]*.py)
	$(if $(ARGS),,$(PYTEST) tests/integration/test_export_m*.py tests/integration/test_[g-q]*.py tests/integration/test_s*.py tests/integration/test_at*.py tests/integration/test_d[ai]*.py)
	$(if $(ARGS),,$(PYTEST) tests/integration/test_tex*.py tests/integration/test_tr*.py tests/integration/test_ab*.py tests/integration/test_ter*.py tests/integration/test_[u-z]*.py tests/system)

# Under 90 s on two cores: the unit tests, without the files that train, export or compile much.
test-quick: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2 --dist loadfile -m "not slow and not long" tests/unit $(ARGS)

test-slow: $(VENV)/.installed-slow
	$(RUN) -m pytest -m slow $(ARGS)

# The tests in Chromium, which are part of test-slow.
test-browser: $(VENV)/.installed-browser
	@command -v chromium > /dev/null && command -v chromedriver > /dev/null || { echo "Chromium is needed: apt-get install chromium chromium-driver"; exit 1; }
	$(RUN) -m pytest -m browser $(ARGS)

fuzz: $(VENV)/.installed-test
	PYTHONPATH=tests $(RUN) -m fuzz $(ARGS)

lint: $(VENV)/.installed-test
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .

typecheck: $(VENV)/.installed-test
	$(VENV)/bin/mypy

# Coverage of the library by `make test`, worker processes and commands included; the report is build/coverage/index.html.
coverage: $(VENV)/.installed-test
	$(RUN) -m pytest -n 2 --dist loadfile -m "not slow" $(addprefix --cov=$(CURDIR)/,tf_transformer export pipelines) --cov-report=term --cov-report=html --cov-report=json $(ARGS)

# The site in build/site; every link is checked.
docs: $(VENV)/.installed-docs
	NO_MKDOCS_2_WARNING=1 $(RUN) -m mkdocs build --strict --quiet $(ARGS)

bench: $(VENV)/.installed-test
	$(RUN) -m benchmarks $(ARGS)

# Virtual environments of the peers in build/peers, for `make bench ARGS="decoding --peer-envs build/peers --json"`.
peers: $(VENV)/.installed-test
	$(RUN) -m benchmarks.peers.setup build/peers

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed; set PYTHON=…") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e .
	touch $@

$(VENV)/.installed-test: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[test]'
	touch $@ $(VENV)/.installed

$(VENV)/.installed-slow: $(VENV)/.installed-test
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[test,slow,browser]'
	touch $@ $(VENV)/.installed-browser

$(VENV)/.installed-browser: $(VENV)/.installed-test
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[test,browser]'
	touch $@

$(VENV)/.installed-docs: setup.cfg pyproject.toml | $(VENV)/bin/python
	$(RUN) -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info
