"""The kernels that oneDNN runs in a model's steps.

Another process (`worker`) runs the model with oneDNN's verbose log on: oneDNN reads the setting
only once, and the log would slow down this process.
"""

from .find import Kernel, Kernels, StepKernels, job_of, kernels_of
from .worker import step_keys

__all__ = ["Kernel", "Kernels", "StepKernels", "job_of", "kernels_of", "step_keys"]
