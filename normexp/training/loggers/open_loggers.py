"""Open the loggers that a configuration names, beside those of the run's own folder."""

from pathlib import Path

from normexp.config.loggers import names_of
from normexp.config.run_parts import Parts
from normexp.training.loggers.service_logger import ServiceLogger


def open_loggers(parts: Parts, folder: Path) -> list[ServiceLogger]:
    """The loggers of services. The service's packages are imported only if they are asked for.

    Raises ValueError with one line if a service cannot be reached.
    """
    found: list[ServiceLogger] = []
    names = names_of(parts.config["logger"])
    if "wandb" in names:
        from normexp.training.loggers.wandb_run import WandbRun

        found.append(WandbRun(parts, folder))
    if "mlflow" in names:
        from normexp.training.loggers.mlflow_run import MlflowRun

        try:
            found.append(MlflowRun(parts, folder))
        except BaseException as error:
            for logger in found:
                logger.error = error
                logger.close()
            raise
    return found
