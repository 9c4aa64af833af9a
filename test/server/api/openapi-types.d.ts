export interface paths {
    "/api/generate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * Starts a generation, and charges it
         * @description Not to be sent again without its Idempotency-Key when no reply came: it may have been charged.
         */
        post: operations["start"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/generation-status": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns a generation, to be asked every 5 to 10 seconds */
        get: operations["status"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/api/cancel": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends a generation as failed, with its credits back */
        post: operations["cancel"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/videos": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the videos of the account, newest first */
        get: operations["listVideos"];
        put?: never;
        /**
         * Starts a video, and charges it
         * @description Not to be sent again without its Idempotency-Key when no reply came: it may have been charged.
         */
        post: operations["createVideo"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/videos/{id}": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description That of the start. */
                id: string;
            };
            cookie?: never;
        };
        /** Returns a video's status */
        get: operations["retrieveVideo"];
        put?: never;
        post?: never;
        /** Stops a video that runs, with its credits back, and removes one that has ended */
        delete: operations["deleteVideo"];
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/videos/{id}/content": {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description That of the start. */
                id: string;
            };
            cookie?: never;
        };
        /** Returns the .mp4, whole or a range of it, or its picture */
        get: operations["downloadVideo"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/v1/models": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the models that this service serves */
        get: operations["listModels"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/accounts": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Lists the accounts */
        get: operations["accounts"];
        put?: never;
        /** Makes an account, or a further key for one */
        post: operations["addAccount"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/accounts/credits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Adds credits to an account, or takes some away */
        post: operations["addCredits"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/accounts/limits": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Limits what an account may start; null is no limit */
        post: operations["setLimits"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/accounts/rotate": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Gives an account a new key in place of all that it had */
        post: operations["rotate"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/accounts/revoke": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Ends a key, or all of an account */
        post: operations["revoke"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/backup": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /** Returns a copy of the embedded database */
        post: operations["backup"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/engines": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Checks what makes the videos */
        get: operations["engines"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/metrics": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns figures for Prometheus */
        get: operations["metrics"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/healthz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the process answers */
        get: operations["alive"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/readyz": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Whether the service can do its work */
        get: operations["ready"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
    "/openapi.json": {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        /** Returns this description */
        get: operations["describe"];
        put?: never;
        post?: never;
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface webhooks {
    ended: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        get?: never;
        put?: never;
        /**
         * A generation has completed or failed
         * @description Sent to the callback_url of its start, at least once: at first at once, then for over an hour. Signed as in Standard Webhooks.
         */
        post: operations["ended"];
        delete?: never;
        options?: never;
        head?: never;
        patch?: never;
        trace?: never;
    };
}
export interface components {
    schemas: {
        Start: {
            /** @description What the video shows. At most 32 kB. */
            prompt: string;
            /**
             * @description One of those that this service serves.
             * @example sora-2
             * @example veo-3.1
             * @example kling-2.6
             * @example kling-1.6-elements
             * @example wan-2.5
             * @example ray-3
             * @example seedance
             * @example minimax
             */
            model: string;
            /** @description Width to height, between 1:4 and 4:1; 16:9 unless the model has another. */
            aspectRatio?: string;
            /** @description Seconds, more than 0 and at most 60; 5 unless the model has another length. */
            duration?: number | string;
            /**
             * @description The shorter side in pixels; 480p unless the model has another.
             * @enum {string}
             */
            resolution?: "480p" | "720p" | "1080p";
            /** @description An image to start from: an http(s) or data: address of a PNG, JPEG or WebP. */
            imageUrl?: string;
            /** @description Several, for models that take them; kling-1.6-elements takes 2 to 4. */
            imageUrls?: string[];
            /** @description Where the result is POSTed to: see the webhook. */
            callback_url?: string | null;
            seed?: components["schemas"]["OptionalExtra"];
            negative_prompt?: components["schemas"]["OptionalExtra"];
            num_frames?: components["schemas"]["OptionalExtra"];
            fps?: components["schemas"]["OptionalExtra"];
            num_inference_steps?: components["schemas"]["OptionalExtra"];
            guidance_scale?: components["schemas"]["OptionalExtra"];
            guidance_scale_2?: components["schemas"]["OptionalExtra"];
            flow_shift?: components["schemas"]["OptionalExtra"];
            boundary_ratio?: components["schemas"]["OptionalExtra"];
            true_cfg_scale?: components["schemas"]["OptionalExtra"];
            extra_params?: components["schemas"]["OtherExtra"];
            lora?: components["schemas"]["OtherExtra"];
            audio_reference?: components["schemas"]["OtherExtra"];
            video_reference?: components["schemas"]["OtherExtra"];
            generate_audio?: components["schemas"]["OtherExtra"];
            generate_sound?: components["schemas"]["OtherExtra"];
            sound_duration?: components["schemas"]["OtherExtra"];
            quality?: components["schemas"]["OtherExtra"];
            short_edge?: components["schemas"]["OtherExtra"];
            enable_frame_interpolation?: components["schemas"]["OtherExtra"];
            frame_interpolation_exp?: components["schemas"]["OtherExtra"];
            frame_interpolation_scale?: components["schemas"]["OtherExtra"];
            frame_interpolation_model_path?: components["schemas"]["OtherExtra"];
        };
        /** @description Passed on to a real model, and ignored by one that does not know it. */
        OptionalExtra: number | string;
        /** @description Passed on to a real model. */
        OtherExtra: number | boolean | string | unknown[] | {
            [key: string]: unknown;
        };
        Started: {
            /** @constant */
            success: true;
            data: {
                /** Format: uuid */
                id: string;
                /** @constant */
                status: "processing";
                model: string;
                prompt: string;
                /** Format: date-time */
                created_at: string;
            };
            /** @description What this generation costs. */
            credits_charged: number;
            remaining_credits: number;
        };
        Generation: {
            /** Format: uuid */
            id: string;
            /** @enum {string} */
            status: "processing" | "completed" | "failed";
            /** @description The .mp4, which takes no key; null until it is completed. */
            video_url: string | null;
            /** @description A frame of it, as PNG. */
            thumbnail_url: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Why it failed. */
            error?: string;
            /**
             * @description The engine's provider wants to be paid.
             * @constant
             */
            error_code?: "credits";
            /** @description What the engine's provider has charged, in USD. */
            cost?: number;
            /** @description How much of the video is made, in percent. */
            progress?: number;
        };
        Cancelled: {
            /** Format: uuid */
            id: string;
            /** @enum {string} */
            status: "processing" | "completed" | "failed";
            /** @description The .mp4, which takes no key; null until it is completed. */
            video_url: string | null;
            /** @description A frame of it, as PNG. */
            thumbnail_url: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Why it failed. */
            error?: string;
            /**
             * @description The engine's provider wants to be paid.
             * @constant
             */
            error_code?: "credits";
            /** @description What the engine's provider has charged, in USD. */
            cost?: number;
            credits_returned: number;
        };
        Ended: {
            /** Format: uuid */
            id: string;
            /** @enum {string} */
            status: "processing" | "completed" | "failed";
            /** @description The .mp4, which takes no key; null until it is completed. */
            video_url: string | null;
            /** @description A frame of it, as PNG. */
            thumbnail_url: string | null;
            /** Format: date-time */
            created_at: string;
            /** @description Why it failed. */
            error?: string;
            /**
             * @description The engine's provider wants to be paid.
             * @constant
             */
            error_code?: "credits";
            /** @description What the engine's provider has charged, in USD. */
            cost?: number;
            /** Format: date-time */
            completed_at: string;
        };
        Create: {
            /** @description What the video shows. At most 32 kB. */
            prompt: string;
            /**
             * @description One of those that this service serves.
             * @example sora-2
             * @example veo-3.1
             * @example kling-2.6
             * @example kling-1.6-elements
             * @example wan-2.5
             * @example ray-3
             * @example seedance
             * @example minimax
             */
            model: string;
            /** @description Where the result is POSTed to: see the webhook. */
            callback_url?: string | null;
            seed?: components["schemas"]["OptionalExtra"];
            negative_prompt?: components["schemas"]["OptionalExtra"];
            num_frames?: components["schemas"]["OptionalExtra"];
            fps?: components["schemas"]["OptionalExtra"];
            num_inference_steps?: components["schemas"]["OptionalExtra"];
            guidance_scale?: components["schemas"]["OptionalExtra"];
            guidance_scale_2?: components["schemas"]["OptionalExtra"];
            flow_shift?: components["schemas"]["OptionalExtra"];
            boundary_ratio?: components["schemas"]["OptionalExtra"];
            true_cfg_scale?: components["schemas"]["OptionalExtra"];
            extra_params?: components["schemas"]["OtherExtra"];
            lora?: components["schemas"]["OtherExtra"];
            audio_reference?: components["schemas"]["OtherExtra"];
            video_reference?: components["schemas"]["OtherExtra"];
            generate_audio?: components["schemas"]["OtherExtra"];
            generate_sound?: components["schemas"]["OtherExtra"];
            sound_duration?: components["schemas"]["OtherExtra"];
            quality?: components["schemas"]["OtherExtra"];
            short_edge?: components["schemas"]["OtherExtra"];
            enable_frame_interpolation?: components["schemas"]["OtherExtra"];
            frame_interpolation_exp?: components["schemas"]["OtherExtra"];
            frame_interpolation_scale?: components["schemas"]["OtherExtra"];
            frame_interpolation_model_path?: components["schemas"]["OtherExtra"];
            size?: string;
            /** @description Seconds, more than 0 and at most 60; 5 unless the model has another length. */
            seconds?: number | string;
            input_reference?: (string | {
                image_url: string;
            }) | (string | {
                image_url: string;
            })[];
            image_reference?: (string | {
                image_url: string;
            }) | (string | {
                image_url: string;
            })[];
        };
        CreateForm: {
            /** @description What the video shows. At most 32 kB. */
            prompt: string;
            /**
             * @description One of those that this service serves.
             * @example sora-2
             * @example veo-3.1
             * @example kling-2.6
             * @example kling-1.6-elements
             * @example wan-2.5
             * @example ray-3
             * @example seedance
             * @example minimax
             */
            model: string;
            /** @description Where the result is POSTed to: see the webhook. */
            callback_url?: string | null;
            seed?: components["schemas"]["OptionalExtra"];
            negative_prompt?: components["schemas"]["OptionalExtra"];
            num_frames?: components["schemas"]["OptionalExtra"];
            fps?: components["schemas"]["OptionalExtra"];
            num_inference_steps?: components["schemas"]["OptionalExtra"];
            guidance_scale?: components["schemas"]["OptionalExtra"];
            guidance_scale_2?: components["schemas"]["OptionalExtra"];
            flow_shift?: components["schemas"]["OptionalExtra"];
            boundary_ratio?: components["schemas"]["OptionalExtra"];
            true_cfg_scale?: components["schemas"]["OptionalExtra"];
            extra_params?: components["schemas"]["OtherExtra"];
            lora?: components["schemas"]["OtherExtra"];
            audio_reference?: components["schemas"]["OtherExtra"];
            video_reference?: components["schemas"]["OtherExtra"];
            generate_audio?: components["schemas"]["OtherExtra"];
            generate_sound?: components["schemas"]["OtherExtra"];
            sound_duration?: components["schemas"]["OtherExtra"];
            quality?: components["schemas"]["OtherExtra"];
            short_edge?: components["schemas"]["OtherExtra"];
            enable_frame_interpolation?: components["schemas"]["OtherExtra"];
            frame_interpolation_exp?: components["schemas"]["OtherExtra"];
            frame_interpolation_scale?: components["schemas"]["OtherExtra"];
            frame_interpolation_model_path?: components["schemas"]["OtherExtra"];
            size?: string;
            /** @description Seconds, more than 0 and at most 60; 5 unless the model has another length. */
            seconds?: number | string;
            /**
             * Format: binary
             * @description A PNG, JPEG or WebP, or its address.
             */
            input_reference?: string;
            image_reference?: (string | {
                image_url: string;
            }) | (string | {
                image_url: string;
            })[];
        };
        Video: {
            /** Format: uuid */
            id: string;
            /** @constant */
            object: "video";
            /** @enum {string} */
            status: "queued" | "in_progress" | "completed" | "failed";
            /** @description In percent. */
            progress: number;
            model: string;
            prompt: string;
            seconds: string;
            size: string;
            /** @description Unix seconds. */
            created_at: number;
            completed_at: number | null;
            expires_at: null;
            error: {
                code: string;
                message: string;
            } | null;
            usage?: {
                /** @description What the engine's provider has charged, in USD. */
                cost: number;
            };
        };
        VideoList: {
            /** @constant */
            object: "list";
            data: components["schemas"]["Video"][];
            first_id: string | null;
            last_id: string | null;
            has_more: boolean;
        };
        Removed: {
            /** Format: uuid */
            id: string;
            /** @constant */
            object: "video.deleted";
            /** @constant */
            deleted: true;
        };
        Models: {
            /** @constant */
            object: "list";
            data: {
                id: string;
                /** @constant */
                object: "model";
                created: number;
                /** @constant */
                owned_by: "vidgen";
            }[];
        };
        Error: {
            error: {
                code: string;
                message: string;
                type: string;
            };
        };
        NewAccount: {
            name: string;
            /** @description What a new account has; 1000 without it. */
            credits?: number;
            /** @description Whether an account that exists is refused, not changed. */
            new?: boolean;
        };
        Account: {
            account: string;
            /** @description Shown only here. */
            api_key: string;
            /** @description Signs the callbacks of this account. */
            webhook_secret: string;
            credits: number;
        };
        Accounts: {
            accounts: {
                account: string;
                credits: number;
                keys: number;
                /** @description How many may be unfinished at once. */
                max_running: number | null;
                /** @description How many may be started in an hour. */
                max_per_hour: number | null;
            }[];
        };
        Credits: {
            account: string;
            /** @description A whole number; negative to take credits away. */
            amount: number;
        };
        Credited: {
            account: string;
            amount: number;
            /** @description The balance now. */
            credits: number;
            /** @description Whether the Idempotency-Key had come before: nothing was changed. */
            replayed: boolean;
        };
        Limits: {
            account: string;
            /** @description How many may be unfinished at once. */
            max_running?: number | null;
            /** @description How many may be started in an hour. */
            max_per_hour?: number | null;
        };
        Limited: {
            account: string;
            /** @description How many may be unfinished at once. */
            max_running: number | null;
            /** @description How many may be started in an hour. */
            max_per_hour: number | null;
        };
        Rotate: {
            account: string;
        };
        Rotated: {
            account: string;
            /** @description Shown only here. */
            api_key: string;
            webhook_secret: string;
            credits: number;
            /** @description How many keys it had before. */
            revoked: number;
        };
        Revoke: {
            /** @description A key, or an account all of whose keys end. */
            revoke: string;
        };
        Revoked: {
            /** @description How many keys. */
            revoked: number;
        };
        Engines: {
            engines: {
                engine: string;
                models: string[];
                kind: string | null;
                /** @description Why it cannot be used now. */
                error: string | null;
                /** @description Since when it takes no generations. */
                out_since: string | null;
                out_reason: string | null;
            }[];
        };
        Alive: {
            /** @constant */
            status: "ok";
        };
        Readiness: {
            /** @enum {string} */
            status: "ok" | "unavailable" | "stopping";
            /** @enum {string} */
            database: "ok" | "unavailable";
            /** @enum {string} */
            media: "ok" | "unavailable";
            /** @enum {string} */
            engines: "ok" | "unavailable" | "unused";
        };
    };
    responses: {
        /** @description Unauthorized */
        Unauthorized: {
            headers: {
                "WWW-Authenticate"?: string;
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "unauthorized",
                 *         "message": "unknown API key",
                 *         "type": "authentication_error"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Forbidden */
        Forbidden: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "forbidden",
                 *         "message": "only the local account's key can use /engines",
                 *         "type": "permission_error"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Forbidden */
        Elsewhere: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                /**
                 * @example {
                 *       "error": {
                 *         "code": "forbidden_origin",
                 *         "message": "requests from other web sites are refused",
                 *         "type": "permission_error"
                 *       }
                 *     }
                 */
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description The database cannot be reached */
        Unavailable: {
            headers: {
                /** @description Seconds. */
                "Retry-After"?: string;
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
        /** @description Any other refusal */
        Refused: {
            headers: {
                [name: string]: unknown;
            };
            content: {
                "application/json": components["schemas"]["Error"];
            };
        };
    };
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type $defs = Record<string, never>;
export interface operations {
    start: {
        parameters: {
            query?: never;
            header?: {
                /** @description With the same key and body again, the same reply comes and nothing is charged. */
                "Idempotency-Key"?: string;
                /** @description What it belongs to, such as a batch, under which the page shows it: percent-encoded, at most 200 characters. */
                "Vidgen-Label"?: string;
                /** @description How many will have that label, for the time that is left. */
                "Vidgen-Label-Size"?: number;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "prompt": "a red fox runs through snow at dusk",
                 *       "model": "veo-3.1",
                 *       "aspectRatio": "16:9",
                 *       "duration": 5
                 *     }
                 */
                "application/json": components["schemas"]["Start"];
            };
        };
        responses: {
            /** @description It has started */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "success": true,
                     *       "data": {
                     *         "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *         "status": "processing",
                     *         "model": "veo-3.1",
                     *         "prompt": "a red fox runs through snow at dusk",
                     *         "created_at": "2026-01-01T00:00:00.000Z"
                     *       },
                     *       "credits_charged": 10,
                     *       "remaining_credits": 990
                     *     }
                     */
                    "application/json": components["schemas"]["Started"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_prompt",
                     *         "message": "prompt is missing",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            /** @description Payment Required */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "insufficient_credits",
                     *         "message": "one generation costs 10 credits; the account has fewer",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "idempotency_key_reused",
                     *         "message": "this Idempotency-Key was already used with another body",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "unsupported_media_type",
                     *         "message": "the body must be application/json",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too Many Requests */
            429: {
                headers: {
                    /** @description Seconds. */
                    "Retry-After"?: string;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "too_many_running",
                     *         "message": "this account may have 1 unfinished at once; nothing was charged",
                     *         "type": "rate_limit_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    status: {
        parameters: {
            query: {
                /** @description That of the start. */
                id: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The generation */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *       "status": "completed",
                     *       "created_at": "2026-01-01T00:00:00.000Z",
                     *       "video_url": "http://127.0.0.1:8788/7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d.mp4",
                     *       "thumbnail_url": "http://127.0.0.1:8788/7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d.png"
                     *     }
                     */
                    "application/json": components["schemas"]["Generation"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_id",
                     *         "message": "the query parameter id is missing",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "not_found",
                     *         "message": "there is no generation with this id",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    cancel: {
        parameters: {
            query: {
                /** @description That of the start. */
                id: string;
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is cancelled, now or before */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *       "status": "failed",
                     *       "created_at": "2026-01-01T00:00:00.000Z",
                     *       "video_url": null,
                     *       "thumbnail_url": null,
                     *       "error": "cancelled",
                     *       "credits_returned": 10
                     *     }
                     */
                    "application/json": components["schemas"]["Cancelled"];
                };
            };
            401: components["responses"]["Unauthorized"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "not_found",
                     *         "message": "there is no generation with this id",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "already_ended",
                     *         "message": "not cancelled: it has completed",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    listVideos: {
        parameters: {
            query?: {
                after?: string;
                limit?: number;
                order?: "desc";
            };
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description A part of the list */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "object": "list",
                     *       "data": [
                     *         {
                     *           "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *           "object": "video",
                     *           "status": "completed",
                     *           "progress": 100,
                     *           "model": "veo-3.1",
                     *           "prompt": "a red fox runs through snow at dusk",
                     *           "seconds": "5",
                     *           "size": "1280x720",
                     *           "created_at": 1767225600,
                     *           "completed_at": 1767225630,
                     *           "expires_at": null,
                     *           "error": null
                     *         }
                     *       ],
                     *       "first_id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *       "last_id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *       "has_more": false
                     *     }
                     */
                    "application/json": components["schemas"]["VideoList"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_limit",
                     *         "message": "limit must be a whole number from 1 to 100",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    createVideo: {
        parameters: {
            query?: never;
            header?: {
                /** @description With the same key and body again, the same reply comes and nothing is charged. */
                "Idempotency-Key"?: string;
                /** @description What it belongs to, such as a batch, under which the page shows it: percent-encoded, at most 200 characters. */
                "Vidgen-Label"?: string;
                /** @description How many will have that label, for the time that is left. */
                "Vidgen-Label-Size"?: number;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "prompt": "a red fox runs through snow at dusk",
                 *       "model": "veo-3.1",
                 *       "seconds": "5",
                 *       "size": "1280x720"
                 *     }
                 */
                "application/json": components["schemas"]["Create"];
                "multipart/form-data": components["schemas"]["CreateForm"];
            };
        };
        responses: {
            /** @description It has started */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *       "object": "video",
                     *       "status": "queued",
                     *       "progress": 0,
                     *       "model": "veo-3.1",
                     *       "prompt": "a red fox runs through snow at dusk",
                     *       "seconds": "5",
                     *       "size": "1280x720",
                     *       "created_at": 1767225600,
                     *       "completed_at": null,
                     *       "expires_at": null,
                     *       "error": null
                     *     }
                     */
                    "application/json": components["schemas"]["Video"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_prompt",
                     *         "message": "prompt is missing",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            /** @description Payment Required */
            402: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "insufficient_credits",
                     *         "message": "one generation costs 10 credits; the account has fewer",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "idempotency_key_reused",
                     *         "message": "this Idempotency-Key was already used with another body",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Unsupported Media Type */
            415: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "unsupported_media_type",
                     *         "message": "the body must be application/json or multipart/form-data",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Too Many Requests */
            429: {
                headers: {
                    /** @description Seconds. */
                    "Retry-After"?: string;
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "too_many_running",
                     *         "message": "this account may have 1 unfinished at once; nothing was charged",
                     *         "type": "rate_limit_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    retrieveVideo: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description That of the start. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The video */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *       "object": "video",
                     *       "status": "completed",
                     *       "progress": 100,
                     *       "model": "veo-3.1",
                     *       "prompt": "a red fox runs through snow at dusk",
                     *       "seconds": "5",
                     *       "size": "1280x720",
                     *       "created_at": 1767225600,
                     *       "completed_at": 1767225630,
                     *       "expires_at": null,
                     *       "error": null
                     *     }
                     */
                    "application/json": components["schemas"]["Video"];
                };
            };
            401: components["responses"]["Unauthorized"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "not_found",
                     *         "message": "there is no generation with this id",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    deleteVideo: {
        parameters: {
            query?: never;
            header?: never;
            path: {
                /** @description That of the start. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It is removed */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                     *       "object": "video.deleted",
                     *       "deleted": true
                     *     }
                     */
                    "application/json": components["schemas"]["Removed"];
                };
            };
            401: components["responses"]["Unauthorized"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "not_found",
                     *         "message": "there is no generation with this id",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "not_cancellable",
                     *         "message": "not cancelled: it is being submitted to fake; it goes on",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    downloadVideo: {
        parameters: {
            query?: {
                variant?: "video" | "thumbnail";
            };
            header?: {
                Range?: string;
            };
            path: {
                /** @description That of the start. */
                id: string;
            };
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description All of it */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "video/mp4": string;
                    "image/png": string;
                };
            };
            /** @description The range */
            206: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "video/mp4": string;
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_variant",
                     *         "message": "variant must be video or thumbnail",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "not_ready",
                     *         "message": "this video is not made yet",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description It has fewer bytes */
            416: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    listModels: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The models */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Models"];
                };
            };
            401: components["responses"]["Unauthorized"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    accounts: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Each account, by name */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Accounts"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    addAccount: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "name": "ci",
                 *       "credits": 50
                 *     }
                 */
                "application/json": components["schemas"]["NewAccount"];
            };
        };
        responses: {
            /** @description The account with its key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Account"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_account",
                     *         "message": "credits must be a whole number",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "account_exists",
                     *         "message": "the account ci exists, with 50 credits; nothing was changed",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    addCredits: {
        parameters: {
            query?: never;
            header: {
                /** @description With the same key again, nothing is changed. */
                "Idempotency-Key": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "account": "ci",
                 *       "amount": 500
                 *     }
                 */
                "application/json": components["schemas"]["Credits"];
            };
        };
        responses: {
            /** @description The balance */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "account": "ci",
                     *       "amount": 500,
                     *       "credits": 550,
                     *       "replayed": false
                     *     }
                     */
                    "application/json": components["schemas"]["Credited"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_amount",
                     *         "message": "amount must be a whole number, negative to take credits away",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "no_account",
                     *         "message": "there is no account ci",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "credits_out_of_range",
                     *         "message": "ci has 50 credits; nothing was changed",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    setLimits: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "account": "ci",
                 *       "max_running": 4,
                 *       "max_per_hour": null
                 *     }
                 */
                "application/json": components["schemas"]["Limits"];
            };
        };
        responses: {
            /** @description Its limits */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "account": "ci",
                     *       "max_running": 4,
                     *       "max_per_hour": null
                     *     }
                     */
                    "application/json": components["schemas"]["Limited"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_limit",
                     *         "message": "max_running must be a whole number from 1 to 1000000, or null",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "no_account",
                     *         "message": "there is no account ci",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    rotate: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "account": "ci"
                 *     }
                 */
                "application/json": components["schemas"]["Rotate"];
            };
        };
        responses: {
            /** @description The account with its key */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Rotated"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_account",
                     *         "message": "account must be the name of an account",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            /** @description Not Found */
            404: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "no_account",
                     *         "message": "there is no account ci",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "own_key",
                     *         "message": "the local account's key is replaced by vidgen serve --rotate",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    revoke: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "revoke": "ci"
                 *     }
                 */
                "application/json": components["schemas"]["Revoke"];
            };
        };
        responses: {
            /** @description How many keys have ended */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "revoked": 1
                     *     }
                     */
                    "application/json": components["schemas"]["Revoked"];
                };
            };
            /** @description Bad Request */
            400: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "invalid_revoke",
                     *         "message": "revoke must be a key or an account",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            /** @description Conflict */
            409: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "error": {
                     *         "code": "own_key",
                     *         "message": "the local account's key is replaced by vidgen serve --rotate",
                     *         "type": "invalid_request_error"
                     *       }
                     *     }
                     */
                    "application/json": components["schemas"]["Error"];
                };
            };
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    backup: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The database, as it was at one moment */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/vnd.sqlite3": string;
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    engines: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description Each engine */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Engines"];
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    metrics: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description The text format of Prometheus */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "text/plain": string;
                };
            };
            401: components["responses"]["Unauthorized"];
            403: components["responses"]["Forbidden"];
            503: components["responses"]["Unavailable"];
            default: components["responses"]["Refused"];
        };
    };
    alive: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It does */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "status": "ok"
                     *     }
                     */
                    "application/json": components["schemas"]["Alive"];
                };
            };
            403: components["responses"]["Elsewhere"];
            default: components["responses"]["Refused"];
        };
    };
    ready: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description It can */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    /**
                     * @example {
                     *       "status": "ok",
                     *       "database": "ok",
                     *       "media": "ok",
                     *       "engines": "ok"
                     *     }
                     */
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            403: components["responses"]["Elsewhere"];
            /** @description It cannot */
            503: {
                headers: {
                    /** @description Seconds. */
                    "Retry-After"?: string;
                    [name: string]: unknown;
                };
                content: {
                    "application/json": components["schemas"]["Readiness"];
                };
            };
            default: components["responses"]["Refused"];
        };
    };
    describe: {
        parameters: {
            query?: never;
            header?: never;
            path?: never;
            cookie?: never;
        };
        requestBody?: never;
        responses: {
            /** @description OpenAPI 3.1 */
            200: {
                headers: {
                    [name: string]: unknown;
                };
                content: {
                    "application/json": Record<string, never>;
                };
            };
            403: components["responses"]["Elsewhere"];
            default: components["responses"]["Refused"];
        };
    };
    ended: {
        parameters: {
            query?: never;
            header: {
                /** @description The same at each attempt. */
                "webhook-id": string;
                /** @description When this attempt was made, in Unix seconds. */
                "webhook-timestamp": string;
                /** @description `v1,` and the base64 of HMAC-SHA256 over `<webhook-id>.<webhook-timestamp>.<body>`. */
                "webhook-signature": string;
            };
            path?: never;
            cookie?: never;
        };
        requestBody: {
            content: {
                /**
                 * @example {
                 *       "id": "7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d",
                 *       "status": "completed",
                 *       "created_at": "2026-01-01T00:00:00.000Z",
                 *       "video_url": "http://127.0.0.1:8788/7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d.mp4",
                 *       "thumbnail_url": "http://127.0.0.1:8788/7d562bbb-0c2b-4c6e-9d0a-5a3c8f1e2b4d.png",
                 *       "completed_at": "2026-01-01T00:01:30.000Z"
                 *     }
                 */
                "application/json": components["schemas"]["Ended"];
            };
        };
        responses: {
            /** @description Not wanted: no further attempt is made. */
            410: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description Received, within 15 seconds. */
            "2XX": {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
            /** @description It is sent again. */
            default: {
                headers: {
                    [name: string]: unknown;
                };
                content?: never;
            };
        };
    };
}
