"""The house: who may import whom, and where kernels live."""

import ast
import functools
import os
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

import msbgen

PACKAGE = Path(msbgen.__file__).parent
TESTS = Path(__file__).parent

# Each of the eight folders, and those that it may import besides itself.
FOLDERS = {
    "core": set(),
    "data": {"core"},
    "engine": {"core", "data"},
    "sources": {"core", "data"},
    "answers": {"core", "data", "engine"},
    # beside the generator: they meet it through the dataset schema
    "systems": {"core", "data", "sources"},
    "output": {"core", "data", "engine", "answers", "sources"},
    "cli": {"core", "data", "engine", "answers", "systems", "output", "sources"},
    "__main__": {"cli"},
    "__init__": {"core"},
}
# Each wing of a folder, and the other wings of that folder that it may import.
ROOMS = {
    "engine": {
        "bridge": set(),
        "trend": set(),
        "faults": {"trend"},
        "generate": {"bridge", "trend", "faults"},
        "bounds": {"generate", "trend"},
    },
    "sources": {"measure": set(), "platform": set(), "timings": set()},
    # plans of comparisons take the order of contexts from other plans
    "answers": {"plan": set(), "evaluate": set(), "compare": {"plan"}, "choose": set()},
    # systems never import each other
    "systems": {
        "learn": set(),
        "phases": set(),
        "beside": set(),
        "realtime": {"phases"},
        "runtimes": {"learn"},
        "machines": {"learn"},
        "kernels": {"learn"},
        "graphs": {"learn", "phases"},
    },
    # the report of a task is one job of a batch as of a command
    "output": {"report": set(), "export": set(), "batch": {"report"}, "find": set()},
}
SYSTEMS = ROOMS["systems"].keys() - {"learn", "phases"}
# Files of netCDF are touched here only.
NETCDF = {"msbgen.data.store", "msbgen.data.hdf5"}
# These know arrays only; labels are put on and taken off above them.
ARRAYS_ONLY = {"core", "bridge", "trend", "faults"}

FILES = {
    ".".join(("msbgen", *p.relative_to(PACKAGE).with_suffix("").parts)): p
    for p in sorted(PACKAGE.rglob("*.py"))
}


@functools.cache
def syntax(path):
    """Every node of a file."""
    return tuple(ast.walk(ast.parse(path.read_text(encoding="utf-8"))))


@functools.cache
def imports(path):
    """Set of the modules and names that a file imports anywhere, in functions too."""
    names = set()
    for node in syntax(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: import absolutely"
            names.add(node.module or "")
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "lazy_module":
            names.add(ast.literal_eval(node.args[0]))
    return frozenset(names)


def folder(module):
    """``msbgen.engine.trend.fit`` -> ``engine``; a module on the ground floor is its own folder."""
    return module.split(".")[1]


def wing(module):
    """``msbgen.engine.trend.fit`` -> ``trend``, ``msbgen.data.check`` -> ``data``."""
    parts = module.split(".")
    return parts[2] if parts[1] in ROOMS and len(parts) > 2 else parts[1]


def graph():
    """Modules and those of ours that each imports; a package's __init__ stands for itself."""
    files = {name.removesuffix(".__init__"): path for name, path in FILES.items()}
    return {name: imports(path) & files.keys() - {name, "msbgen"} for name, path in files.items()}


def test_folders_and_wings_import_only_what_they_may():
    for module, path in FILES.items():
        here = folder(module)
        assert here in FOLDERS, f"{module} has no place in the house: give it one here"
        if here in ROOMS and module != f"msbgen.{here}.__init__":
            assert wing(module) in ROOMS[here], f"{module} has no room: give it one here"
        for name in imports(path):
            if name.startswith("msbgen.") and name.split(".")[1] + ".__init__" != module:
                there = folder(name)
                assert there in FOLDERS[here] | {here}, f"{module} imports {name}"
                if there == here and here in ROOMS and wing(name) != wing(module):
                    assert wing(name) in ROOMS[here][wing(module)], f"{module} imports {name}"
            library = name.split(".")[0]
            if library in ("xarray", "netCDF4"):
                assert wing(module) not in ARRAYS_ONLY, f"{module} knows arrays only"
            if library == "netCDF4":
                assert module in NETCDF, f"{module} touches a netCDF file"


# What a profile dataset is asked for once, where its record is made.
ACCESSORS = {"counter_names", "replicate_dim", "counter_dims", "duration_array"}
ACCESSORS |= {"context_table", "sampling_interval", "resource_attrs"}
# Verbs and writers that keep a dataset as it is, and a dataset that is none of profiles.
ASKS_A_DATASET = {
    "msbgen",
    "msbgen.answers.choose.context",
    "msbgen.cli.demo",
    "msbgen.output.batch.zarr_store",
    "msbgen.systems.kernels.dataset",
    "msbgen.systems.kernels.predictor.kernel_predictor",
}


def test_a_dataset_of_profiles_is_asked_once_where_its_record_is_made():
    asking = set()
    for module, path in FILES.items():
        if wing(module) == "data" or module in ASKS_A_DATASET:
            continue
        for node in syntax(path):
            names = set()
            if isinstance(node, ast.ImportFrom) and node.module == "msbgen.data.schema":
                names = {name.name for name in node.names}
            elif isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "schema":
                names = {node.attr}
            if names & ACCESSORS:
                asking.add(module)
    assert not asking


# Imported with the command line: without numpy.
QUICK = ("msbgen.cli", "msbgen.core.records", "msbgen.core.durations")


def test_verbs_import_their_wings_when_they_run():
    for module, path in FILES.items():
        if wing(module) != "cli":
            continue
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            names = [node.module] if isinstance(node, ast.ImportFrom) else []
            assert all(not n.startswith("msbgen") or n.startswith(QUICK) for n in names)


def test_verbs_know_options_and_options_know_no_verb():
    """main -> verbs -> options; a part of a verb may ask the verb: graph_predict, graph."""
    for module, path in FILES.items():
        if wing(module) == "cli" and module not in ("msbgen.cli.main", "msbgen.cli.__init__"):
            ours = {name for name in imports(path) if name.startswith("msbgen.cli.")}
            verb = module.rpartition("_")[0] or "msbgen.cli.options"
            parts = "msbgen.cli.options" if ".options." in module else (verb, "msbgen.cli.options")
            assert all(name.startswith(parts) for name in ours), module


def test_no_modules_import_each_other_in_a_circle_and_floors_are_few():
    """Modules of one wing may import each other, but one way only; wings make few floors."""
    modules = graph()
    assert len(list(TopologicalSorter(modules).static_order())) == len(modules)  # or CycleError
    wings: dict[str, set[str]] = {}
    for name, needed in modules.items():
        if name != "msbgen":
            wings.setdefault(wing(name), set()).update({wing(n) for n in needed} - {wing(name)})
    floors: dict[str, int] = {}
    for name in TopologicalSorter(wings).static_order():
        floors[name] = 1 + max((floors[below] for below in wings.get(name, ())), default=0)
    assert max(floors.values()) <= 8


def test_numba_lives_in_kernel_files_only():
    for module, path in FILES.items():
        if "numba" in {n.split(".")[0] for n in imports(path)}:
            allowed = path.name == "_kernels.py" or module == "msbgen.core.compiled"
            assert allowed, f"{module} imports numba"


# numba's disk cache notices neither an edited callee nor an edited flag in another file.
KERNELS = [module for module, path in FILES.items() if path.name == "_kernels.py"]


@pytest.mark.parametrize("module", KERNELS)
def test_kernels_depend_on_their_own_file_only(module):
    ours = {name for name in imports(FILES[module]) if name.split(".")[0] == "msbgen"}
    ours -= {"msbgen.core.compiled", "msbgen.core.compiled.cached"}  # not in the compiled code
    assert not ours, f"{module} imports {ours}: its cache would not notice their edits"


@pytest.mark.parametrize("module", KERNELS)
def test_flags_of_compilation_stand_in_the_kernels_own_file(module):
    flags = {
        constant.value
        for node in syntax(FILES[module])
        if isinstance(node, ast.Dict)
        for constant in node.keys
        if isinstance(constant, ast.Constant)
    }
    assert {"nogil", "error_model", "fastmath"} <= flags


@pytest.mark.parametrize("module", KERNELS)
def test_kernels_are_called_from_their_own_folder_only(module):
    for other, path in FILES.items():
        if any(name == module or name.startswith(module + ".") for name in imports(path)):
            assert path.parent == FILES[module].parent, f"{other} imports {module}"


def test_kernels_with_an_underscore_are_called_by_kernels_only():
    """They have no entry from Python: a call would end the process."""
    for path in [*FILES.values(), *TESTS.rglob("*.py"), *TESTS.parent.glob("benchmarks/*.py")]:
        names_kernels = b"_kernels" in path.read_bytes()
        for node in syntax(path) if names_kernels else ():
            called = ()
            if isinstance(node, ast.Attribute) and ast.unparse(node.value).endswith("kernels"):
                called = (node.attr,)
            elif isinstance(node, ast.ImportFrom) and (node.module or "").endswith("_kernels"):
                called = [imported.name for imported in node.names]
            inner = [name for name in called if name.startswith("_") and not name.endswith("_")]
            assert not inner, f"{path} calls {inner}, which only kernels may"


# Wings that users address by themselves: each says in its folder what it is for, and its limits.
ADDRESSED = SYSTEMS | {
    "choose",
    "compare",
    "export",
    "find",
    "measure",
    "platform",
    "report",
    "batch",
}


def test_a_wing_that_users_address_has_a_page():
    for place, wings in ROOMS.items():
        for name in ADDRESSED & wings.keys():
            page = PACKAGE / place / name / "README.md"
            assert page.is_file(), f"{name} has no page of its own"


def nodes(kind):
    """Every node of that kind, and the module that it is in."""
    for module, path in FILES.items():
        yield from ((module, node) for node in syntax(path) if isinstance(node, kind))


def test_laws_are_asked_not_told_apart():
    for module, call in nodes(ast.Call):
        if isinstance(call.func, ast.Name) and call.func.id == "isinstance":
            told_apart = {n.id for n in ast.walk(call.args[1]) if isinstance(n, ast.Name)}
            assert not any(name.endswith("ProfileDistribution") for name in told_apart), module


def test_failures_have_a_type_that_says_who_can_mend_them():
    """A plain ValueError that reaches a user is a bug; one of ours says whose fault it is."""
    for module, statement in nodes(ast.Raise):
        raised = statement.exc.func if isinstance(statement.exc, ast.Call) else statement.exc
        if isinstance(raised, ast.Name):
            place = f"{module}, line {statement.lineno}"
            assert raised.id not in ("ValueError", "Exception"), place


def test_one_convention_for_randomness_and_one_for_progress():
    """``rng: np.random.Generator | int = 0`` and ``progress: OnProgress | None = None``."""
    wanted = {
        "rng": ({"np.random.Generator | int", "np.random.Generator"}, "0"),
        "progress": ({"OnProgress | None", "OnProgress"}, "None"),
    }
    for module, function in nodes(ast.FunctionDef):
        given = function.args
        positional = [*given.posonlyargs, *given.args]
        defaults = [None] * (len(positional) - len(given.defaults)) + given.defaults
        every = zip([*positional, *given.kwonlyargs], [*defaults, *given.kw_defaults])
        for argument, default in every:
            if argument.arg in wanted and argument.annotation:
                types, value = wanted[argument.arg]
                place = f"{module}.{function.name}"
                assert ast.unparse(argument.annotation) in types, place
                assert default is None or ast.unparse(default) == value, place


def test_oracles_import_nothing_of_the_package():
    assert not any(n.startswith("msbgen") for n in imports(TESTS / "oracles.py"))


def test_help_imports_nothing_heavy():
    code = "import sys\nfrom msbgen.cli.main import main\n"
    code += "try: main(['--help'])\nexcept SystemExit: pass\nprint(*sys.modules)"
    output = subprocess.run(
        [sys.executable, "-X", "importtime", "-c", code], capture_output=True, text=True, check=True
    )
    loaded = {line.rpartition("|")[2].strip().split(".")[0] for line in output.stderr.splitlines()}
    assert "argparse" in loaded
    assert not loaded & {"numpy", "scipy", "numba", "ot", "xarray", "sklearn", "netCDF4", "pandas"}
    assert "usage: msbgen" in output.stdout


def test_help_costs_less_than_a_third_of_a_second():
    def seconds_of_a_core():
        process = subprocess.Popen(
            [sys.executable, "-m", "msbgen", "--help"], stdout=subprocess.PIPE
        )
        with process:
            assert b"usage: msbgen" in process.stdout.read()
            used = os.wait4(process.pid, 0)[2]
            process.returncode = 0
        return used.ru_utime + used.ru_stime

    assert min(seconds_of_a_core() for _ in range(5)) < 0.3  # the best of five: others work, too
