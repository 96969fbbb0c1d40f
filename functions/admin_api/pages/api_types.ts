// Types of the API's requests and responses. Written by `make console-types`; do not edit.

export interface components {
    schemas: {
        Acceptance: {
            reason?: string | null;
        };
        AddedDestination: {
            name: string;
            /** @enum {string} */
            kind: "webhook" | "s3";
            address: string;
            events: ("cluster" | "document" | "offers")[];
            secret: string | null;
        };
        AddedTenant: {
            /** Format: uuid */
            id: string;
            slug: string;
            name: string;
            organization: string;
            /** Format: date-time */
            created_at: string;
            disabled_at: string | null;
            addresses: string[];
            admins: string[];
            is_new: boolean;
            destinations: components["schemas"]["AddedDestination"][];
        };
        AddressChange: {
            /** @default [] */
            added: string[];
            /** @default [] */
            removed: string[];
        };
        AddressList: {
            tenant: string;
            addresses: string[];
        };
        AlarmState: {
            name: string;
            since: string | null;
            description: string | null;
        };
        AmbiguousMatch: {
            candidates: components["schemas"]["Candidate"][];
        } & {
            [key: string]: unknown;
        };
        AttemptLog: {
            group: string;
            filter: string;
            /** Format: date-time */
            since: string;
            /** Format: date-time */
            until: string;
            url: string | null;
        };
        AuditHead: {
            number: number;
            hash: string;
        };
        AuditPage: {
            tenant_id: string | null;
            head: components["schemas"]["AuditHead"] | null;
            entries: components["schemas"]["AuditRecord"][];
            next_cursor: number | null;
        };
        AuditRecord: {
            number: number;
            /** Format: date-time */
            recorded_at: string;
            actor: string;
            action: string;
            targets: string[];
            version_before: number | null;
            version_after: number | null;
            note_hash: string | null;
            detail: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            previous_hash: string | null;
            hash: string;
        };
        BlockedUser: {
            /** Format: uuid */
            user_id: string;
            /** Format: date-time */
            since: string;
        };
        BlockedUsers: {
            users: components["schemas"]["BlockedUser"][];
            next_cursor: string | null;
        };
        BreakerState: {
            name: string;
            /** Format: date-time */
            since: string;
            /** Format: date-time */
            until: string;
        };
        BulkFilter: {
            /**
             * @default [
             *       "pending",
             *       "retried",
             *       "resolved",
             *       "ignored"
             *     ]
             */
            status: ("pending" | "retried" | "resolved" | "ignored")[];
            task_type?: string | null;
            from_date?: string | null;
            to_date?: string | null;
            search?: string | null;
            fingerprint?: string | null;
            tenant?: string | null;
        };
        BulkIgnoring: {
            job_ids?: string[] | null;
            filter?: components["schemas"]["BulkFilter"] | null;
            /** @default false */
            dry_run: boolean;
            /** @default 500 */
            rate: number;
            reason?: string | null;
        };
        BulkPreview: {
            tenant: string;
            count: number;
            is_exact: boolean;
            sample: components["schemas"]["DeadLetterSummary"][];
        };
        BulkResolution: {
            job_ids?: string[] | null;
            filter?: components["schemas"]["BulkFilter"] | null;
            /** @default false */
            dry_run: boolean;
            /** @default 500 */
            rate: number;
            notes?: string | null;
        };
        BulkRetry: {
            job_ids?: string[] | null;
            filter?: components["schemas"]["BulkFilter"] | null;
            /** @default false */
            dry_run: boolean;
            /** @default 50 */
            rate: number;
            canary?: number | null;
            notes?: string | null;
        };
        Candidate: {
            document: components["schemas"]["ReviewDocument"];
            probability: number;
            weight_bits: number;
            evidence: components["schemas"]["Step"][];
        };
        ChatMessage: {
            number: number;
            /** @enum {string} */
            role: "user" | "assistant";
            content: string;
            /** Format: uuid */
            job_id: string;
            /** Format: date-time */
            created_at: string;
            status: string | null;
        };
        ChatSession: {
            /** Format: uuid */
            session_id: string;
            tenant: string;
            /** Format: date-time */
            created_at: string;
            messages: number;
            preview: string;
        };
        ChatSessionPage: {
            sessions: components["schemas"]["ChatSession"][];
            next_cursor: string | null;
        };
        ChatTranscript: {
            /** Format: uuid */
            session_id: string;
            tenant: string;
            messages: components["schemas"]["ChatMessage"][];
            next_cursor: number | null;
        };
        Cluster: {
            /** Format: uuid */
            id: string;
            tenant: string;
            status: components["schemas"]["ClusterStatus"] | null;
            order_numbers: string[];
            documents: components["schemas"]["DocumentSummary"][];
            documents_total: number;
            next_cursor: string | null;
            matches: components["schemas"]["ClusterMatch"][];
            matches_total: number;
            contracts: components["schemas"]["DocumentSummary"][];
            comparison: components["schemas"]["ClusterComparison"] | null;
            computed_at: string | null;
            is_computing: boolean;
            error: string | null;
        };
        ClusterComparison: {
            outcome: string;
            reasons: string[];
            warnings: string[];
            lines: components["schemas"]["ClusterLine"][];
            lines_total: number;
            variances: components["schemas"]["ClusterVariance"][];
            variances_total: number;
            can_be_accepted: boolean;
        };
        ClusterLine: {
            order: string | null;
            line: string;
            article: string | null;
            description: string | null;
            unit: string | null;
            currency: string | null;
            ordered: string | null;
            delivered: string | null;
            received: string | null;
            rejected: string | null;
            billed: string | null;
            credited: string | null;
            price: string | null;
            parts: components["schemas"]["LinePart"][];
            parts_total: number;
            readonly unit_name: string | null;
        } & {
            [key: string]: unknown;
        };
        ClusterMatch: {
            /** Format: uuid */
            document_a_id: string;
            /** Format: uuid */
            document_b_id: string;
            score: number;
            confidence: string;
            decided_by: string;
            reasoning: string;
            /** Format: date-time */
            decided_at: string;
            evidence: components["schemas"]["Step"][];
            judged_document_id: string | null;
        };
        ClusterPage: {
            clusters: components["schemas"]["ClusterSummary"][];
            next_cursor: string | null;
            counts: {
                [key: string]: number;
            };
        };
        /** @enum {string} */
        ClusterStatus: "exception" | "needs-review" | "disputed" | "incomplete" | "accepted" | "matched";
        ClusterSummary: {
            /** Format: uuid */
            id: string;
            tenant: string;
            status: components["schemas"]["ClusterStatus"];
            supplier: string | null;
            order_numbers: string[];
            currency: string | null;
            ordered: string | null;
            delivered: string | null;
            billed: string | null;
            affected: string;
            /** Format: date-time */
            waiting_since: string;
            documents: number;
            reason: string;
            is_computing: boolean;
        };
        ClusterVariance: {
            code: string;
            /** Format: uuid */
            document: string;
            document_type: string;
            number: string | null;
            line: string | null;
            expected: string | null;
            actual: string | null;
            difference: string | null;
            unit: string | null;
            currency: string | null;
            tolerance: {
                [key: string]: components["schemas"]["JsonValue"];
            } | null;
            within_tolerance: boolean;
            message: string;
            decided_by: string | null;
            awaited_deliveries?: string | null;
            decision?: ("accepted" | "disputed") | null;
            decision_by?: string | null;
            readonly label: string;
        } & {
            [key: string]: unknown;
        };
        Confirm: {
            reason?: string | null;
            /** @default [] */
            overrides: number[] | null;
            /** Format: uuid */
            document: string;
        };
        DeadLetter: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            worker: string;
            task_type: string;
            work_id: string | null;
            revision: number | null;
            attempts: number;
            fingerprint: string;
            dlq_reason: string;
            /** Format: date-time */
            dlq_timestamp: string;
            /** @enum {string} */
            status: "pending" | "retried" | "resolved" | "ignored";
            resolution: components["schemas"]["Resolution"] | null;
            resolved_at: string | null;
            resolved_by: string | null;
            metadata: components["schemas"]["Metadata"];
            version: number;
            file_name: string | null;
            redacted_paths: string[];
            payload: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            previous_failures: components["schemas"]["PreviousFailure"][];
        };
        DeadLetterChange: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            /** @enum {string} */
            status: "pending" | "retried" | "resolved" | "ignored";
            version: number;
        };
        DeadLetterCountsByType: {
            count: number;
            pending: number;
            retried: number;
            resolved: number;
            ignored: number;
            task_type: string;
        };
        DeadLetterEdit: {
            payload: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            notes?: string | null;
        };
        DeadLetterEvent: {
            /** Format: date-time */
            at: string;
            /** @enum {string} */
            kind: "attempt" | "dead_lettered" | "change";
            outcome: string;
            actor: string;
            error: components["schemas"]["ErrorSummary"] | null;
            revision: number | null;
            attempt: number | null;
            started_at: string | null;
            next_attempt_at: string | null;
            detail: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            log: components["schemas"]["AttemptLog"] | null;
            trace_id: string | null;
            trace_url: string | null;
        };
        DeadLetterGroup: {
            fingerprint: string;
            worker: string;
            error_type: string;
            message: string;
            /** Format: date-time */
            first_seen: string;
            /** Format: date-time */
            last_seen: string;
            count: number;
            pending: number;
            retried: number;
            resolved: number;
            ignored: number;
            /** @enum {string} */
            state: "open" | "resolved" | "ignored";
            trend: number[];
            redacted_paths: string[];
        };
        DeadLetterGroupPage: {
            groups: components["schemas"]["DeadLetterGroup"][];
            next_cursor: string | null;
        };
        DeadLetterIgnore: {
            reason?: string | null;
        };
        DeadLetterPage: {
            dead_letters: components["schemas"]["DeadLetterSummary"][];
            next_cursor: string | null;
        };
        DeadLetterPayload: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            task_type: string;
            original: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            edited: {
                [key: string]: components["schemas"]["JsonValue"];
            } | null;
            edits: components["schemas"]["PayloadEdit"][];
            version: number;
        };
        DeadLetterResolution: {
            notes: string;
        };
        DeadLetterRetry: {
            notes?: string | null;
        };
        DeadLetterStats: {
            count: number;
            pending: number;
            retried: number;
            resolved: number;
            ignored: number;
            tenant: string;
            task_types: components["schemas"]["DeadLetterCountsByType"][];
        };
        DeadLetterSummary: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            worker: string;
            task_type: string;
            work_id: string | null;
            revision: number | null;
            attempts: number;
            fingerprint: string;
            dlq_reason: string;
            /** Format: date-time */
            dlq_timestamp: string;
            /** @enum {string} */
            status: "pending" | "retried" | "resolved" | "ignored";
            resolution: components["schemas"]["Resolution"] | null;
            resolved_at: string | null;
            resolved_by: string | null;
            metadata: components["schemas"]["Metadata"];
            version: number;
            file_name: string | null;
            redacted_paths: string[];
        };
        DeadLetterTimeline: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            events: components["schemas"]["DeadLetterEvent"][];
            redacted_paths: string[];
        };
        Decision: {
            id: number;
            documents: string[];
            document: components["schemas"]["ReviewDocument"];
            verdict: string;
            by: string;
            reason: string | null;
            /** Format: date-time */
            at: string;
        };
        DecisionOutcome: {
            tenant: string;
            verdict: string;
            decided: string[][];
            clusters: string[];
            rematched_documents: number;
        };
        DefaultTolerance: {
            lower_absolute?: string | null;
            lower_percent?: string | null;
            upper_absolute?: string | null;
            upper_percent?: string | null;
            key: components["schemas"]["Key"];
            text: string;
        };
        Destination: {
            name: string;
            /** @enum {string} */
            kind: "webhook" | "s3";
            address: string;
            events: ("cluster" | "document" | "offers")[];
        };
        DestinationForm: {
            name: string;
            /** @enum {string} */
            kind: "webhook" | "s3";
            address: string;
            /**
             * @default [
             *       "cluster",
             *       "document"
             *     ]
             */
            events: ("cluster" | "document" | "offers")[];
        };
        DestinationList: {
            tenant: string;
            destinations: components["schemas"]["Destination"][];
        };
        Document: {
            /** Format: uuid */
            id: string;
            tenant: string;
            type: string | null;
            number: string | null;
            date: string | null;
            seller: string | null;
            buyer: string | null;
            total: components["schemas"]["Total"] | null;
            file_name: string;
            /** Format: date-time */
            received_at: string;
            cluster_id: string | null;
            cluster_status: components["schemas"]["ClusterStatus"] | null;
            cluster_order_numbers: string[];
            missing: string[];
            stages: components["schemas"]["DocumentStage"][];
            dead_letter: string | null;
            size: number;
            method: string | null;
            duplicate_uploads: number;
            /** Format: date-time */
            last_duplicate_at: string;
            source: components["schemas"]["DocumentSource"];
            parent_id: string | null;
            first_page: number | null;
            last_page: number | null;
            parts: components["schemas"]["DocumentPart"][];
            fields: components["schemas"]["DocumentField"][];
            lines: components["schemas"]["DocumentField"][][];
            lines_total: number;
            progress: components["schemas"]["Progress"][];
            matches: components["schemas"]["DocumentMatch"][];
            matches_total: number;
            dead_letters: components["schemas"]["DocumentDeadLetter"][];
            review: ("open" | "decided" | "resolved") | null;
        };
        DocumentDeadLetter: {
            /** Format: uuid */
            job_id: string;
            worker: string;
            status: string;
        };
        DocumentEvent: {
            /** Format: date-time */
            at: string;
            /** @enum {string} */
            kind: "arrival" | "work" | "attempt" | "running" | "scheduled" | "dead_letter" | "question" | "link" | "review" | "decision" | "result";
            outcome: string;
            actor: string;
            started_at?: string | null;
            revision?: number | null;
            attempt?: number | null;
            error_type?: string | null;
            error?: string | null;
            next_attempt_at?: string | null;
            other_document_id?: string | null;
            job_id?: string | null;
            detail?: {
                [key: string]: components["schemas"]["JsonValue"];
            };
        };
        DocumentField: {
            path: string;
            value: components["schemas"]["JsonValue"];
            source: string | null;
            confidence: number | null;
            page: number | null;
            unit_name: string | null;
        };
        DocumentMatch: {
            document: components["schemas"]["DocumentSummary"];
            score: number;
            confidence: string;
            decided_by: string;
            reasoning: string;
            /** Format: date-time */
            decided_at: string;
            evidence: components["schemas"]["Step"][];
        };
        DocumentPage: {
            documents: components["schemas"]["DocumentSummary"][];
            next_cursor: string | null;
        };
        DocumentPart: {
            /** Format: uuid */
            id: string;
            first_page: number;
            last_page: number;
        };
        DocumentSource: {
            kind: string;
            /** Format: date-time */
            received_at: string;
            sender: string | null;
            subject: string | null;
            spf: string | null;
            dkim: string | null;
            dmarc: string | null;
        };
        DocumentStage: {
            /** @enum {string} */
            stage: "source" | "ingestion" | "matching" | "output";
            /** @enum {string} */
            state: "none" | "pending" | "in-progress" | "succeeded" | "failed" | "skipped";
            reason: string | null;
        };
        DocumentSummary: {
            /** Format: uuid */
            id: string;
            tenant: string;
            type: string | null;
            number: string | null;
            date: string | null;
            seller: string | null;
            buyer: string | null;
            total: components["schemas"]["Total"] | null;
            file_name: string;
            /** Format: date-time */
            received_at: string;
            cluster_id: string | null;
            cluster_status: components["schemas"]["ClusterStatus"] | null;
            cluster_order_numbers: string[];
            missing: string[];
            stages: components["schemas"]["DocumentStage"][];
            dead_letter: string | null;
        };
        DocumentTimeline: {
            /** Format: uuid */
            id: string;
            tenant: string;
            events: components["schemas"]["DocumentEvent"][];
        };
        /** @enum {string} */
        DocumentType: "invoice" | "credit_note" | "purchase_order" | "order_confirmation" | "delivery_note" | "goods_receipt" | "contract" | "other";
        EarlierDecision: {
            id: number;
            /** @enum {string} */
            verdict: "confirmed" | "rejected" | "accepted" | "disputed";
            by: string;
            /** Format: date-time */
            at: string;
        };
        Emails: {
            emails: {
                [key: string]: string;
            };
        };
        ErasedDocument: {
            tenant: string;
            documents: string[];
            retained_documents: string[];
            rematched: number;
            files: number;
            retained_files: number;
        };
        ErasurePlan: {
            tenant: string;
            documents: number;
            tasks: number | null;
            dead_letters: number | null;
            confirm: string;
        };
        ErrorSummary: {
            type: string | null;
            message: string | null;
        };
        ExportLink: {
            url: string;
            /** Format: date-time */
            url_expires_at: string;
        };
        FailedUser: {
            /** Format: uuid */
            user_id: string;
            /** Format: uuid */
            shard_id: string;
            shard: string;
            error: string | null;
            attempts: number;
        };
        FailedUsers: {
            users: components["schemas"]["FailedUser"][];
            next_cursor: string | null;
        };
        GatewayError: {
            message: string;
        };
        HeldMail: {
            /** Format: uuid */
            id: string;
            /** Format: date-time */
            received_at: string;
            sender: string | null;
            subject: string | null;
            spf: string | null;
            dkim: string | null;
            dmarc: string | null;
            /** @enum {string} */
            hold: "held" | "released" | "rejected";
        };
        HeldMailPage: {
            tenant: string;
            mails: components["schemas"]["HeldMail"][];
            next_cursor: string | null;
        };
        IdMatch: {
            id: string;
            tenant: string;
        };
        IdMatches: {
            found: components["schemas"]["IdMatch"][];
        };
        JsonValue: unknown;
        /** @enum {string} */
        Key: "price" | "billed_quantity" | "delivered_quantity" | "total" | "tax";
        LastError: {
            type: string;
            code?: string | null;
            message: string;
            /** Format: date-time */
            timestamp: string;
            /** @default {} */
            context: {
                [key: string]: components["schemas"]["JsonValue"];
            };
        } & {
            [key: string]: unknown;
        };
        LinePart: {
            /** Format: uuid */
            document: string;
            line: string;
            role: string;
            quantity: string | null;
            unit_price: string | null;
        } & {
            [key: string]: unknown;
        };
        MailDecided: {
            /** Format: uuid */
            id: string;
            tenant: string;
            /** @enum {string} */
            hold: "held" | "released" | "rejected";
        };
        MailDecision: {
            reason?: string | null;
        };
        MailPolicy: {
            tenant: string;
            /** @enum {string} */
            dmarc_policy: "hold" | "reject" | "accept";
        };
        MailPolicyChange: {
            /** @enum {string} */
            dmarc_policy: "hold" | "reject" | "accept";
            /** @enum {string} */
            previous: "hold" | "reject" | "accept";
        };
        Merge: {
            reason?: string | null;
            /** @default [] */
            overrides: number[] | null;
            documents: string[];
            /** @default false */
            exact: boolean;
        };
        Metadata: {
            /** Format: date-time */
            created_at: string;
            retry_count: number;
            max_retry: number;
            last_error: components["schemas"]["LastError"];
        } & {
            [key: string]: unknown;
        };
        NewPerson: {
            email: string;
            /** @enum {string} */
            role: "viewer" | "operator" | "admin";
            tenants: (string | "*")[];
            /** @default false */
            edits_payloads: boolean;
        };
        NewTenant: {
            slug: string;
            name?: string | null;
            /** @default Default */
            organization: string;
            /** @default [] */
            addresses: string[];
            /** @default [] */
            admins: string[];
            /** @default [] */
            destinations: components["schemas"]["DestinationForm"][];
        };
        Offer: {
            id: string;
            userId: string;
            compatibilityScore: number;
            offeredAt: string;
            expiresAt: string;
            isWithdrawn: boolean;
        } & {
            [key: string]: unknown;
        };
        OfferJob: {
            tenant: string;
            /** Format: uuid */
            pool_id: string;
            /** Format: date */
            date: string;
            timezone: string;
            /** Format: uuid */
            user_id: string;
            /** @enum {string} */
            status: "pending" | "running" | "completed" | "failed";
            /** Format: uuid */
            shard_id: string;
            shard: string;
            attempts: number;
            started_at: string | null;
            completed_at: string | null;
            error: string | null;
            algorithm_version: number | null;
            inputs_hash: string | null;
            offers: components["schemas"]["Offer"][];
            dead_letter: string | null;
        };
        OfferPool: {
            /** Format: uuid */
            id: string;
            tenant: string;
            /** Format: date */
            date: string;
            timezone: string;
            pool_size: number;
            /** Format: date-time */
            offered_at: string;
            /** Format: date-time */
            expires_at: string;
            /** Format: date-time */
            pinned_at: string;
            algorithm_version: number;
            rules: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            /** @enum {string} */
            state: "running" | "completed" | "failed";
            user_count: number;
            shards: number;
            pending: number;
            running: number;
            completed: number;
            failed: number;
            ended_at: string | null;
            late_users: number;
        };
        OfferPoolDetail: {
            /** Format: uuid */
            id: string;
            tenant: string;
            /** Format: date */
            date: string;
            timezone: string;
            pool_size: number;
            /** Format: date-time */
            offered_at: string;
            /** Format: date-time */
            expires_at: string;
            /** Format: date-time */
            pinned_at: string;
            algorithm_version: number;
            rules: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            /** @enum {string} */
            state: "running" | "completed" | "failed";
            user_count: number;
            shards: number;
            pending: number;
            running: number;
            completed: number;
            failed: number;
            ended_at: string | null;
            late_users: number;
            parts: components["schemas"]["OfferShard"][];
        };
        OfferPoolPage: {
            pools: components["schemas"]["OfferPool"][];
            next_cursor: string | null;
        };
        OfferShard: {
            /** Format: uuid */
            id: string;
            name: string;
            /** @enum {string} */
            status: "pending" | "in-progress" | "succeeded" | "failed" | "skipped";
            users: number;
            completed: number | null;
            quarantined: number | null;
            attempts: number;
            error: string | null;
            /** Format: date-time */
            created_at: string;
            claimed_at: string | null;
            ended_at: string | null;
            next_attempt_at: string | null;
            dead_letter?: string | null;
        };
        OffersQueued: {
            /** Format: date */
            date: string;
            timezone: string;
            tenant: string | null;
        };
        OffersRequest: {
            date?: string | null;
            timezone: string;
            tenant?: string | null;
        };
        OperationChange: {
            rate: number;
        };
        OperationFile: {
            /** @enum {string} */
            format: "csv" | "json";
            redacted: boolean;
            bytes: number;
            /** Format: date-time */
            expires_at: string;
        };
        OperationItemDetail: {
            number: number;
            /** Format: uuid */
            job_id: string;
            result: ("succeeded" | "failed" | "skipped") | null;
            reason: string | null;
            version: number | null;
            revision: number | null;
            dead_letter: components["schemas"]["DeadLetterSummary"] | null;
        };
        OperationItemPage: {
            /** Format: uuid */
            operation_id: string;
            items: components["schemas"]["OperationItemDetail"][];
            next_cursor: number | null;
        };
        OperationPage: {
            operations: components["schemas"]["OperationProgress"][];
            next_cursor: string | null;
        };
        OperationProgress: {
            /** Format: uuid */
            operation_id: string;
            tenant: string;
            /** @enum {string} */
            action: "retry" | "resolve" | "ignore" | "purge" | "restore" | "export" | "extract" | "match";
            filter: {
                [key: string]: components["schemas"]["JsonValue"];
            } | null;
            notes: string | null;
            rate: number | null;
            canary: number | null;
            requested_by: string;
            requested_at: string;
            /** @enum {string} */
            state: "selecting" | "canary" | "running" | "paused" | "done" | "canceled" | "halted";
            version: number;
            reason: string | null;
            ended_at: string | null;
            restorable_until: string | null;
            file: components["schemas"]["OperationFile"] | null;
            selected: number | null;
            succeeded: number;
            failed: number;
            skipped: number;
            remaining: number;
            redacted_paths: string[];
        };
        PauseBody: {
            reason: string;
        };
        PauseInfo: {
            by: string;
            reason: string;
            /** Format: date-time */
            at: string;
        };
        PausedQueue: {
            worker: string;
            /** Format: date-time */
            since: string;
            reason: string;
            paused: components["schemas"]["PauseInfo"] | null;
        };
        PausedQueues: {
            queues: components["schemas"]["PausedQueue"][];
        };
        PayloadEdit: {
            by: string;
            /** Format: date-time */
            at: string;
            note: string | null;
            before: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            after: {
                [key: string]: components["schemas"]["JsonValue"];
            };
        };
        Person: {
            id: string;
            email: string;
            role: ("viewer" | "operator" | "admin") | null;
            tenants: string[];
            edits_payloads: boolean;
            is_disabled: boolean;
            /** Format: date-time */
            created_at: string;
        };
        PersonChange: {
            role?: ("viewer" | "operator" | "admin") | null;
            tenants?: (string | "*")[] | null;
            edits_payloads?: boolean | null;
            is_disabled?: boolean | null;
        };
        PersonPage: {
            people: components["schemas"]["Person"][];
            next_cursor: string | null;
        };
        PreviousFailure: {
            revision: number | null;
            dlq_reason: string;
            /** Format: date-time */
            dlq_timestamp: string;
            /** @enum {string} */
            status: "pending" | "retried" | "resolved" | "ignored";
            resolution?: components["schemas"]["Resolution"] | null;
            attempts?: number | null;
            last_error?: components["schemas"]["LastError"] | null;
        } & {
            [key: string]: unknown;
        };
        Problem: {
            /** @default about:blank */
            type: string;
            title: string;
            status: number;
            detail: string;
            decision?: components["schemas"]["EarlierDecision"] | null;
        };
        ProfileBody: {
            timezone: string;
            /** @default true */
            is_active: boolean;
            /** Format: date */
            birth_date: string;
            /** @enum {string} */
            gender: "woman" | "man" | "nonbinary";
            seeks_genders: ("woman" | "man" | "nonbinary")[];
            min_age: number;
            max_age: number;
            latitude: number;
            longitude: number;
            max_distance_km: number;
            traits?: (number | null)[];
        };
        Progress: {
            /** @enum {string} */
            stage: "source" | "ingestion" | "matching" | "output";
            /** @enum {string} */
            state: "none" | "pending" | "in-progress" | "succeeded" | "failed" | "skipped";
            reason: string | null;
            attempts: number;
            revision: number;
            failed_at: string | null;
            next_attempt_at: string | null;
        };
        PurgePlan: {
            tenant: string;
            /** Format: date-time */
            failed_before: string;
            statuses: ("retried" | "resolved" | "ignored")[];
            count: number;
            confirm: string;
        };
        Question: {
            question: string;
            /** Format: date-time */
            asked_at: string;
            prompt: string | null;
            model: string;
            temperature: number | null;
            input_tokens: number | null;
            output_tokens: number | null;
            candidates: {
                [key: string]: components["schemas"]["ReviewDocument"];
            };
            answer: components["schemas"]["JsonValue"];
            system: string | null;
            user: string | null;
        };
        QuestionList: {
            /** Format: uuid */
            id: string;
            tenant: string;
            questions: components["schemas"]["Question"][];
        };
        QueueMinutes: {
            /** Format: date-time */
            begins_at: string;
            succeeded: number[];
            skipped: number[];
            failed: number[];
            depth: (number | null)[];
        };
        QueueOverview: {
            worker: string;
            is_paused: boolean;
            paused: components["schemas"]["PauseInfo"] | null;
            is_applied: boolean | null;
            version: number | null;
            running: number;
            concurrency_limit: number | null;
            pending: number | null;
            oldest_seconds: number | null;
            dead_letters: number | null;
            approximate_visible: number | null;
            approximate_delayed: number | null;
            approximate_in_flight: number | null;
            minutes: components["schemas"]["QueueMinutes"];
        };
        QueueState: {
            worker: string;
            is_paused: boolean;
            paused: components["schemas"]["PauseInfo"] | null;
            is_applied: boolean;
            version: number;
        };
        QueuesOverview: {
            tenant: string | null;
            measured_at: string | null;
            queues: components["schemas"]["QueueOverview"][];
            breakers: components["schemas"]["BreakerState"][] | null;
            alarms: components["schemas"]["AlarmState"][] | null;
        };
        Recompared: {
            tenant: string;
            clusters: number;
            next_cursor: string | null;
        };
        Reject: {
            reason?: string | null;
            /** @default [] */
            overrides: number[] | null;
            documents: string[];
        };
        ReprocessingRequest: {
            tenant?: string | null;
            /** @enum {string} */
            action: "extract" | "match";
            received_from?: string | null;
            received_before?: string | null;
            /** @default 60 */
            rate: number;
        };
        Resolution: {
            action: string;
            notes?: string | null;
        } & {
            [key: string]: unknown;
        };
        Review: {
            /** Format: uuid */
            id: string;
            tenant: string;
            /** @enum {string} */
            state: "open" | "decided" | "resolved";
            type: string;
            probability: number;
            weights: string;
            /** Format: date-time */
            opened_at: string;
            /** Format: date-time */
            changed_at: string;
            closed_at: string | null;
            document: components["schemas"]["ReviewDocument"];
            ambiguous_matches: components["schemas"]["AmbiguousMatch"][];
            decisions: components["schemas"]["Decision"][];
        };
        ReviewDocument: {
            /** Format: uuid */
            id: string;
            type?: string | null;
            file?: string | null;
            number?: string | null;
            date?: string | null;
            seller?: string | null;
            buyer?: string | null;
            total?: string | null;
            /** @default [] */
            missing: string[];
        };
        ReviewPage: {
            reviews: components["schemas"]["Review"][];
            next_cursor: string | null;
        };
        RotatedSecret: {
            name: string;
            secret: string;
        };
        Split: {
            reason?: string | null;
            /** @default [] */
            overrides: number[] | null;
            /** Format: uuid */
            document: string;
        };
        /** @enum {string} */
        Stage: "acquisition" | "ingestion" | "matching";
        /** @enum {string} */
        State: "waiting" | "working" | "succeeded" | "ignored" | "duplicate" | "removed" | "failed";
        Step: {
            feature: string;
            level: string;
            label: string;
            text: string;
            sentence: string;
            bits: number;
            total: number;
        };
        Suggestion: {
            title: string;
            sentences: string[];
            proposal: {
                [key: string]: unknown;
            };
        };
        SuggestionList: {
            tenant: string;
            proposals: components["schemas"]["Suggestion"][];
            withheld: components["schemas"]["WithheldSuggestion"][];
        };
        Task: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            task_type: string;
            /** @enum {string} */
            status: "pending" | "in-progress" | "succeeded" | "failed" | "canceled";
            max_retry: number;
            idempotency_key: string;
            user_id: string | null;
            /** Format: date-time */
            created_at: string;
            attempts: number;
            error: string | null;
            next_attempt_at: string | null;
            ended_at: string | null;
            result: components["schemas"]["JsonValue"];
        };
        TaskAttempt: {
            revision: number;
            attempt: number;
            /** Format: date-time */
            started_at: string;
            /** Format: date-time */
            ended_at: string;
            /** @enum {string} */
            outcome: "succeeded" | "skipped" | "retry" | "deferred" | "failed" | "worker_lost";
            error: string | null;
            next_attempt_at: string | null;
        };
        TaskBody: {
            task_type: string;
            payload: {
                [key: string]: components["schemas"]["JsonValue"];
            };
            idempotency_key?: string | null;
            max_retry?: number | null;
            tenant?: string | null;
        };
        TaskHistory: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            task_type: string;
            /** @enum {string} */
            status: "pending" | "in-progress" | "succeeded" | "failed" | "canceled";
            max_retry: number;
            idempotency_key: string;
            user_id: string | null;
            /** Format: date-time */
            created_at: string;
            attempts: number;
            error: string | null;
            next_attempt_at: string | null;
            ended_at: string | null;
            result: components["schemas"]["JsonValue"];
            dead_letter: string | null;
            timeline: components["schemas"]["TaskAttempt"][];
        };
        TaskPage: {
            tasks: components["schemas"]["TaskSummary"][];
            next_cursor: string | null;
        };
        TaskSummary: {
            /** Format: uuid */
            job_id: string;
            tenant: string;
            task_type: string;
            /** @enum {string} */
            status: "pending" | "in-progress" | "succeeded" | "failed" | "canceled";
            max_retry: number;
            idempotency_key: string;
            user_id: string | null;
            /** Format: date-time */
            created_at: string;
            attempts: number;
            error: string | null;
            next_attempt_at: string | null;
            ended_at: string | null;
        };
        TenantChange: {
            name?: string | null;
            is_disabled?: boolean | null;
        };
        TenantDetail: {
            /** Format: uuid */
            id: string;
            slug: string;
            name: string;
            organization: string;
            /** Format: date-time */
            created_at: string;
            disabled_at: string | null;
            addresses: string[];
            admins: string[];
        };
        TenantErasureStatus: {
            tenant: string;
            /** Format: date-time */
            requested_at: string;
            rows: number;
            objects: number;
            finished_at: string | null;
        };
        TenantPage: {
            tenants: components["schemas"]["TenantSummary"][];
            unassigned: boolean;
            next_cursor: string | null;
        };
        TenantSummary: {
            slug: string;
            name: string;
            disabled_at: string | null;
        };
        ToleranceEntry: {
            lower_absolute?: string | null;
            lower_percent?: string | null;
            upper_absolute?: string | null;
            upper_percent?: string | null;
            key: components["schemas"]["Key"];
            text: string;
            supplier: string | null;
            article: string | null;
            set_by: string;
            reason: string | null;
            evidence: {
                [key: string]: unknown;
            } | null;
        };
        ToleranceForm: {
            lower_absolute?: string | null;
            lower_percent?: string | null;
            upper_absolute?: string | null;
            upper_percent?: string | null;
            key: components["schemas"]["Key"];
            supplier?: string | null;
            article?: string | null;
            reason?: string | null;
        };
        ToleranceList: {
            tenant: string;
            tolerances: components["schemas"]["ToleranceEntry"][];
            defaults: components["schemas"]["DefaultTolerance"][];
        };
        Total: {
            amount: string;
            minor: number | null;
            currency: string | null;
            is_net: boolean;
        };
        Upload: {
            /** Format: uuid */
            id: string;
            tenant: string | null;
            file: string;
            key: string;
            /** Format: date-time */
            received_at: string;
            stage: components["schemas"]["Stage"];
            state: components["schemas"]["State"];
            note: string | null;
            document_id?: string | null;
            type?: string | null;
            number?: string | null;
            sha256?: string | null;
            cluster_id?: string | null;
        };
        UploadForm: {
            url: string;
            fields: {
                [key: string]: string;
            };
            key: string;
            /** Format: date-time */
            expires_at: string;
            max_bytes: number;
        };
        UploadPage: {
            uploads: components["schemas"]["Upload"][];
            next_cursor: string | null;
        };
        UploadRequest: {
            tenant?: string | null;
            file_name: string;
            size?: number | null;
            replaces?: string | null;
            reason?: string | null;
        };
        UserOffers: {
            /** Format: uuid */
            user_id: string;
            tenant: string;
            /** Format: date */
            date: string;
            timezone: string;
            status: "none" | ("pending" | "running" | "completed" | "failed");
            offers: components["schemas"]["Offer"][];
            completed_at: string | null;
            error: string | null;
        };
        UserProfile: {
            /** Format: uuid */
            user_id: string;
            tenant: string;
            timezone: string;
            is_active: boolean;
            /** Format: date */
            birth_date: string;
            /** @enum {string} */
            gender: "woman" | "man" | "nonbinary";
            seeks_genders: ("woman" | "man" | "nonbinary")[];
            min_age: number;
            max_age: number;
            latitude: number;
            longitude: number;
            max_distance_km: number;
            traits: (number | null)[];
            /** Format: date-time */
            updated_at: string;
            version: number;
        };
        /** @enum {string} */
        VarianceCode: "over_billed_quantity" | "under_delivered" | "over_delivered" | "price_mismatch" | "price_basis_mismatch" | "total_mismatch" | "currency_mismatch" | "missing_purchase_order" | "missing_delivery" | "duplicate_invoice" | "billed_beyond_order" | "rejected_goods_billed" | "tax_mismatch";
        VarianceDecisionBody: {
            reason?: string | null;
            /** @default [] */
            overrides: number[] | null;
            /** Format: uuid */
            cluster: string;
            document?: string | null;
            code?: components["schemas"]["VarianceCode"] | null;
            line?: string | null;
            expected?: string | null;
            actual?: string | null;
        };
        VarianceDecisionResult: {
            tenant: string;
            /** Format: uuid */
            cluster: string;
            /** @enum {string} */
            verdict: "accepted" | "disputed";
            differences: string[];
            open: string[];
        };
        WithheldSuggestion: {
            title: string;
            reason: string;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
