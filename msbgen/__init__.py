"""Time-resolved profiles of a task in every resource context, from measurements in a few.

The loop: read profiles, fit a model, generate profiles of any context, bound execution times,
choose the cheapest context, plan the next measurements, score the result, compare versions::

    measured = msbgen.read_profiles("gzip.nc")
    model = msbgen.fit_profiles(measured)
    generated = model.generate(msbgen.all_contexts(measured), kind="mean")
    calibrated = msbgen.calibrate_model(model, measured)
    bounds = calibrated.bounds(msbgen.all_contexts(measured), 0.05, chosen=True)
    choice = msbgen.choose_context(bounds, deadline=0.4, costs="cache_ways=1,bandwidth=0.01/MBps")
    plan = msbgen.plan_contexts(model, "60s")
    comparison = msbgen.compare_profiles(measured, msbgen.read_profiles("new/gzip.nc"))

Systems have namespaces of their own: ``beside`` (programs that share), ``realtime`` (allocators
and schedules with deadlines), ``runtimes`` (runtimes never measured), ``machines`` (which machine
runs a program best, queues), ``kernels`` (runtime and power over clocks), ``graphs`` (task
graphs), ``platform`` (the virtual platform), ``measure`` (recordings of real machines), ``bridge``
and ``evaluate`` (the engine's solver and the distances, on arrays).

Names are imported when they are first used; type checkers read ``__init__.pyi``.
"""

from msbgen.core.lazy import public_names

__getattr__, __dir__, __all__ = public_names(
    __name__,
    {
        "engine.bounds.calibration": ("Calibration",),
        "engine.bounds.model": ("Answer", "CalibratedModel", "calibrate_model"),
        "engine.bridge.solve": ("NotConvergedError",),
        "answers.choose.allotment": ("share_resources",),
        "answers.choose.context": ("choose_context",),
        "answers.compare.comparison": ("compare_profiles",),
        "answers.compare.results": ("Comparison", "CompareSettings"),
        "core.errors": ("ArgumentError", "MeasurementError", "ProfileError"),
        "core.machine": ("OnProgress",),
        "data.check": ("validate_profiles",),
        "data.energy": ("add_energy", "power_over_time", "scale_energy", "total_energy"),
        "data.build": ("make_profiles",),
        "data.schema": ("all_contexts", "context_table"),
        "data.shipped": ("shipped_file",),
        "data.store": ("read_profiles", "write_blocks", "write_profiles"),
        "answers.evaluate.scores": ("leave_contexts_out", "score_methods", "summarise"),
        "engine.generate.elapsed_distribution": ("ElapsedSettings",),
        "engine.generate.distribution": ("Kind",),
        "engine.generate.fit": ("DEFAULT", "PAPER", "PRESETS", "fit_profiles"),
        "engine.generate.model": ("ProfileModel",),
        "engine.generate.progress_distribution": ("ProgressSettings",),
        "answers.plan.plan": ("Plan", "plan_contexts"),
    },
    (
        "systems.beside",
        "engine.bridge",
        "answers.evaluate",
        "systems.graphs",
        "systems.kernels",
        "systems.learn",
        "systems.machines",
        "sources.measure",
        "systems.phases",
        "sources.platform",
        "systems.realtime",
        "systems.runtimes",
    ),
)
