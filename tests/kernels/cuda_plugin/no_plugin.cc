// A shared object that is no plugin.

extern "C" int NoPlugin() { return 0; }
