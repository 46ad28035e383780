"""Reading people's tables: columns of any type, how they become features, price lists."""
