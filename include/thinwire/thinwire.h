// The whole public C++ API in one include.
#pragma once

#include "thinwire/collective.h"
#include "thinwire/error.h"
#include "thinwire/export.h"
#include "thinwire/launch.h"
#include "thinwire/session.h"
#include "thinwire/stats.h"
#include "thinwire/strategy.h"
#include "thinwire/transport.h"
#include "thinwire/types.h"
#include "thinwire/version.h"
