"""Examples outside the library: the journal of the demo, flights that left New York in 2013."""
