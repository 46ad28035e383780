"""Reading people's tables: columns of any type, how they become features, price lists."""

from ascertain._core.sharding import Shards as Shards
from ascertain._core.sharding import shard as shard
from ascertain.tables._shards import SplitTable as SplitTable
from ascertain.tables._shards import read_shards as read_shards
