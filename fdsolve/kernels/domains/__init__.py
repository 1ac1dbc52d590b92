"""Operations on parts of a grid, on packed grids, over windows and along lines."""

from . import _block_sparse_kernels as _block_sparse_kernels
from . import _grouped_kernels as _grouped_kernels
from . import _pool_kernels as _pool_kernels
from . import _ragged_kernels as _ragged_kernels
from . import _recurrence_kernels as _recurrence_kernels
from ._block_sparse import BlockSparseCall as BlockSparseCall
from ._block_sparse import block_sparse as block_sparse
from ._grouped import GroupedCall as GroupedCall
from ._grouped import grouped as grouped
from ._pool import PoolCall as PoolCall
from ._pool import pool as pool
from ._ragged import RaggedCall as RaggedCall
from ._ragged import ragged as ragged
from ._recurrence import RecurrenceCall as RecurrenceCall
from ._recurrence import recurrence as recurrence
