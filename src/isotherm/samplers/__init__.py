"""The samplers, one file each."""

from isotherm.samplers.base import Sampler
from isotherm.samplers.ccadl import ccadl
from isotherm.samplers.eccadl import eccadl
from isotherm.samplers.mccadl import mccadl
from isotherm.samplers.msgld import msgld
from isotherm.samplers.sghmc import sghmc
from isotherm.samplers.sgld import sgld
from isotherm.samplers.sgnht import sgnht

__all__ = ["Sampler", "ccadl", "eccadl", "mccadl", "msgld", "sghmc", "sgld", "sgnht"]
