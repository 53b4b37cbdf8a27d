#include "gateway/api/chat_context.h"
