"""Convolution: the operation "conv", its kernels, and the doors to it."""

from . import _gemm as _gemm
from . import _lax as _lax
from . import _reference as _reference
from . import _stencils as _stencils
from . import _taps as _taps
from ._call import ConvCall as ConvCall
from ._conv import conv as conv
from ._conv import conv_transpose as conv_transpose
from ._conv import conv_with_general_padding as conv_with_general_padding
