# Two commands for a newcomer: `make run` and `make test`. Both set everything up first, in .venv; nothing else is touched.
PYTHON ?= python3
VENV := .venv

.PHONY: run test setup

run: $(VENV)/run.stamp
	$(VENV)/bin/anvil-tui

test: $(VENV)/test.stamp
	$(VENV)/bin/python -m pytest -n 4

setup: $(VENV)/test.stamp

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/run.stamp: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --editable .
	touch $@

$(VENV)/test.stamp: pyproject.toml $(VENV)/run.stamp
	$(VENV)/bin/python -m pip --disable-pip-version-check install --quiet "pip>=25.1"
	$(VENV)/bin/python -m pip --disable-pip-version-check install --quiet --group dev
	touch $@
