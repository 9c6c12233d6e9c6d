/* SPDX-License-Identifier: BSD-2-Clause */
#include <infiniband/verbs.h>

#include "base/log.h"
#include "core/object/vendor_err.h"

void vendor_err_log(const struct ibv_wc *wc)
{
	if (wc->status == IBV_WC_SUCCESS || wc->status == IBV_WC_WR_FLUSH_ERR)
		return;
	log_warn("qp 0x%06x: work request 0x%llx failed: %s: %s (vendor_err %u)", wc->qp_num,
		 (unsigned long long)wc->wr_id, ibv_wc_status_str(wc->status),
		 vendor_err_text(wc->vendor_err), wc->vendor_err);
}
