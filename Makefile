# Thin front of Meson. `make` builds bin/ingero and runs the unit tests; `make test` and `make lint` do the rest.
BUILD ?= build
MESON ?= meson

.PHONY: all build check install test lint bench clean

all: build check

$(BUILD)/build.ninja:
	$(MESON) setup $(BUILD)

build: $(BUILD)/build.ninja
	$(MESON) compile -C $(BUILD)
	mkdir -p bin
	install -m 755 $(BUILD)/src/cli/ingero bin/ingero

check: build
	$(MESON) test -C $(BUILD) --suite unit --print-errorlogs

# Installs what `make` built; never builds as root.
install:
	@test -x $(BUILD)/src/cli/ingero || { echo "nothing is built yet: run make first" >&2; exit 1; }
	$(MESON) install -C $(BUILD) --no-rebuild

test:
	./scripts/test.sh

lint:
	test -d build-clang || CC=clang CXX=clang++ $(MESON) setup build-clang
	$(MESON) compile -C build-clang
	./scripts/lint.sh build-clang

bench: build
	./bench/run.sh --build $(BUILD)

clean:
	rm -rf $(BUILD) bin
