/* All kernel-side programs in one object; each subject has its own file. */
#include "calls.h"
#include "process.h"
#include "names.h"
#include "unwind.h"
