// SPDX-License-Identifier: MIT
// The end of the wire on a host whose ranks another host's qpmesh-run started (wire.hpp).
#pragma once

namespace qpmesh::run {

// Speaks with the launcher over stdin and stdout until the ranks have ended, and they do when the
// launcher goes. Answers 0: how ranks ended is the launcher's to say.
int serve_launcher();

}  // namespace qpmesh::run
